package soak

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// drifting reports that a node is of an earlier form of its pool or its class: Karpenter replaces it.
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

// replaced reports that a node is of an earlier form, as drifting does. Where it has been for longer
// than Karpenter takes to note a hash, and HEAD is a success all the same, that is not true.
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

// hashed is how long Karpenter may take to note the hash of a definition that has changed.
const hashed = 10 * time.Second

// drifted is the NodeClaim whose hash is another than that of what it is made of.
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

// classOf is the class that a NodeClaim names.
func classOf(claim unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(claim.Object, "spec", "nodeClassRef", "name")
	return name
}
