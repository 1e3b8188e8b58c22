package reconcile

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

func TestSuspendedDoesNothing(t *testing.T) {
	b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.Spec.Suspend = true }))
	if result := b.reconcile(); result.RequeueAfter != 0 || len(b.source.requests) > 0 {
		t.Errorf("again in %s, fetched %v", result.RequeueAfter, b.source.requests)
	}
}

func TestOtherNamespacesAreRefused(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.Settings.Namespace = "other"
	if result := b.reconcile(); result.RequeueAfter != 0 || len(b.source.requests) > 0 {
		t.Errorf("again in %s, fetched %v", result.RequeueAfter, b.source.requests)
	}
	var ready metav1.Condition
	for _, c := range b.read().Status.Conditions {
		if c.Type == meta.ReadyCondition {
			ready = c
		}
	}
	if ready.Reason != v1alpha1.ReasonNamespaceNotWatched || ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "other") {
		t.Errorf("ready: %+v", ready)
	}
}

// TestConcludedDeletionIsLeftAlone shows that such a NodeSync is not reconciled: other finalizers may keep it for long.
func TestConcludedDeletionIsLeftAlone(t *testing.T) {
	now := metav1.Now()
	b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
		n.Finalizers, n.DeletionTimestamp = []string{"example.com/other"}, &now
	}))
	if result := b.reconcile(); result.RequeueAfter != 0 || *b.patches > 0 || len(b.told()) > 0 {
		t.Errorf("again in %s, %d writes", result.RequeueAfter, *b.patches)
	}
}

func TestVanishedNodeSyncIsForgotten(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.reconcile()
	sync := b.read()
	sync.Finalizers = nil
	if err := b.client.Update(t.Context(), sync); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Delete(t.Context(), sync); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	if n := b.memories.Len(); n > 0 {
		t.Errorf("%d NodeSyncs are remembered", n)
	}
	if want := []string{b.source.requests[0].Key}; !cmp.Equal(want, b.source.forgotten) {
		t.Errorf("forgotten stores: %v, want %v", b.source.forgotten, want)
	}
}
