package cluster_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// reflector is one whose version a test sets.
type reflector struct{ kind, version string }

func (r *reflector) LastSyncResourceVersion() string { return r.version }
func (r *reflector) TypeDescription() string         { return r.kind }

// TestRefusals: a rejected watch is reported until its cache advances; other errors are not, because client-go retries
// and the cached state is correct.
func TestRefusals(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "karpenter.sh", Resource: "nodeclaims"}, "", errors.New("no role"))
	claims, pools := &reflector{kind: "*v1.NodeClaim"}, &reflector{kind: "karpenter.sh/v1, Kind=NodePool", version: "7"}
	var refusals cluster.Refusals
	refusals.Note(pools, apierrors.NewResourceExpired("too old"))
	refusals.Note(pools, errors.New("connection refused"))
	if err := refusals.Err(); err != nil {
		t.Fatalf("nothing is refused, and it says %v", err)
	}

	refusals.Note(pools, forbidden)
	refusals.Note(claims, forbidden)
	refusals.Note(claims, forbidden)
	err := refusals.Err()
	if !apierrors.IsForbidden(err) || strings.Count(err.Error(), "watch *v1.NodeClaim: ") != 1 || !strings.Contains(err.Error(), "watch karpenter.sh/v1, Kind=NodePool: ") {
		t.Fatalf("two watches are refused, and it says %v", err)
	}

	classes := &reflector{kind: "karpenter.k8s.aws/v1, Kind=EC2NodeClass"}
	refusals.Note(classes, errors.New(`failed to list: conversion webhook for karpenter.k8s.aws/v1beta1, Kind=EC2NodeClass failed: Post "https://karpenter.kube-system.svc:8443/": service "karpenter" not found`))
	if err := refusals.Err(); !strings.Contains(err.Error(), "Kind=EC2NodeClass: failed to list: conversion webhook") {
		t.Errorf("objects cannot be converted, and it says %v", err)
	}
	classes.version = "1"

	claims.version = "8"
	if err := refusals.Err(); err == nil || strings.Contains(err.Error(), "NodeClaim") {
		t.Errorf("one watch has come through, and it says %v", err)
	}
	pools.version = "9"
	if err := refusals.Err(); err != nil {
		t.Errorf("both have come through, and it says %v", err)
	}
}

// TestRefusalsApart: the watch of one type is separated from all others, and forgotten when it has stopped.
func TestRefusalsApart(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "plumbline.dev", Resource: "approvals"}, "", errors.New("no role"))
	var refusals cluster.Refusals
	refusals.Note(&reflector{kind: "*v1alpha1.Approval"}, forbidden)
	if of, others := refusals.Apart("*v1alpha1.Approval"); !apierrors.IsForbidden(of) || others != nil {
		t.Errorf("only that one: %v, and others %v", of, others)
	}
	refusals.Note(&reflector{kind: "*v1.NodeClaim"}, forbidden)
	if of, others := refusals.Apart("*v1alpha1.Approval"); of == nil || others == nil || strings.Contains(others.Error(), "Approval") {
		t.Errorf("another, too: %v, and others %v", of, others)
	}
	refusals.Forget("*v1alpha1.Approval")
	if of, others := refusals.Apart("*v1alpha1.Approval"); of != nil || others == nil {
		t.Errorf("forgotten: %v, and others %v", of, others)
	}
}

// TestNarrow: namespaced objects are watched only in Karpenter's namespace, and cluster-scoped ones everywhere.
func TestNarrow(t *testing.T) {
	for name, c := range map[string]struct {
		namespaces []string
		want       map[string][]string
	}{
		"none": {nil, map[string][]string{}},
		"one": {[]string{"karpenter"}, map[string][]string{
			"Deployment": {"karpenter"}, "Service": {"karpenter"}, "ServiceAccount": {"karpenter"}, "PodDisruptionBudget": {"karpenter"},
			"Role": {"karpenter", "kube-system"}, "RoleBinding": {"karpenter", "kube-system"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := cluster.CacheOptions(&cluster.Refusals{}).ByObject
			cluster.Narrow(objects, c.namespaces)
			got := map[string][]string{}
			for object, rule := range objects {
				kind := object.GetObjectKind().GroupVersionKind().Kind
				if kind == "" {
					kind = fmt.Sprintf("%T", object)[len("*v1."):]
				}
				if len(rule.Namespaces) > 0 && kind != "Event" {
					got[kind] = slices.Sorted(maps.Keys(rule.Namespaces))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
		})
	}
}
