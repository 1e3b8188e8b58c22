package soak

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// drifting returns an error if a node does not match its pool or its class: Karpenter replaces it.
func (s *soak) drifting(ctx context.Context) error {
	claims, err := s.objects.Resource(claimResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, of := range []struct {
		resource schema.GroupVersionResource
		hash     string
		ownerOf  func(unstructured.Unstructured) string
	}{
		{poolResource, "karpenter.sh/nodepool-hash", func(claim unstructured.Unstructured) string { return claim.GetLabels()[poolTag] }},
		{classResource, "karpenter.k8s.aws/ec2nodeclass-hash", classOf},
	} {
		owners, err := s.objects.Resource(of.resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if name := drifted(claims.Items, owners.Items, of.hash, of.ownerOf); name != "" {
			return fmt.Errorf("nodeclaim %s is of an earlier form of its %s", name, of.resource.Resource)
		}
	}
	return nil
}

// replaced is like drifting. It also returns a violation if HEAD is a success although a node has been outdated for
// longer than Karpenter takes to write a hash.
func (s *soak) replaced(ctx context.Context) error {
	err := s.drifting(ctx)
	switch {
	case err == nil:
		s.driftingSince = time.Time{}
	case s.driftingSince.IsZero():
		s.driftingSince = time.Now()
	case time.Since(s.driftingSince) > hashed && s.reported(ctx) == nil:
		return fmt.Errorf("%w: HEAD is a success, and for %s %w", errViolation, time.Since(s.driftingSince).Round(time.Second), err)
	}
	return err
}

// hashed is the maximum time that Karpenter takes to write the hash of a changed definition.
const hashed = 10 * time.Second

// drifted returns the NodeClaim whose hash differs from that of its definition.
func drifted(claims, owners []unstructured.Unstructured, hash string, ownerOf func(unstructured.Unstructured) string) string {
	for _, claim := range claims {
		for _, owner := range owners {
			if ownerOf(claim) == owner.GetName() && claim.GetAnnotations()[hash] != owner.GetAnnotations()[hash] {
				return claim.GetName()
			}
		}
	}
	return ""
}

// classOf returns the class that a NodeClaim references.
func classOf(claim unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(claim.Object, "spec", "nodeClassRef", "name")
	return name
}
