package summary_test

import (
	"testing"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// claim returns a NodeClaim whose node is initialized, as the watch cache keeps it.
func claim(change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{Status: karpv1.NodeClaimStatus{ProviderID: "aws:///a/i-1", NodeName: "ip-1"}}
	for _, each := range change {
		each(c)
	}
	return c
}

func with(kind string, is metav1.ConditionStatus) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		c.Status.Conditions = append(c.Status.Conditions, status.Condition{Type: kind, Status: is})
	}
}

func deleted(c *karpv1.NodeClaim) { c.DeletionTimestamp = &metav1.Time{} }

// TestPoolsCountEachNodeOnce shows that a draining node does not count as outdated, and an outdated one runs.
func TestPoolsCountEachNodeOnce(t *testing.T) {
	pool := &unstructured.Unstructured{Object: map[string]any{}}
	pool.SetKind("NodePool")
	pool.SetName("a")
	drifted := with(karpv1.ConditionTypeDrifted, metav1.ConditionTrue)
	got := summary.Pools([]*unstructured.Unstructured{pool}, map[string][]*karpv1.NodeClaim{"a": {
		claim(), claim(with(karpv1.ConditionTypeInitialized, metav1.ConditionTrue)),
		claim(deleted, drifted), claim(deleted, with(karpv1.ConditionTypeInitialized, metav1.ConditionFalse)),
		claim(drifted),
		claim(func(c *karpv1.NodeClaim) { c.Status.ProviderID = "" }),
		claim(func(c *karpv1.NodeClaim) { c.Status.NodeName = "" }),
		claim(with(karpv1.ConditionTypeInitialized, metav1.ConditionUnknown)),
	}, "b": {claim()}})
	want := []summary.Pool{{Name: "a", Nodes: 8, Draining: 2, Drifted: 1, Launching: 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got[0].UpToDate() != 2 {
		t.Errorf("%d nodes are up to date, want 2", got[0].UpToDate())
	}
}

func TestOtherPools(t *testing.T) {
	got := summary.OtherPools([]summary.Pool{{Ready: true, Nodes: 3}, {Nodes: 1, Draining: 1}})
	if want := "and 2 more: 1 not Ready, 4 nodes, 1 draining"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
