package summary_test

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// TestNextOfMissingNodes shows that Karpenter retries a failed launch, but launches no node to replace one that a
// static pool has lost.
func TestNextOfMissingNodes(t *testing.T) {
	for lost, want := range map[bool]string{false: "Karpenter tries again", true: "Karpenter launches no other node until you have done"} {
		sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: "prod", Generation: 1}}
		sync.Status.ObservedGeneration, sync.Status.LastAttemptedRevision, sync.Status.LastAppliedRevision = 1, "main@sha1:1", "main@sha1:1"
		sync.Status.LaunchFailing = []v1alpha1.LaunchFailure{{Pool: "st", Missing: "1 of 2 nodes of NodePool/st", Lost: lost}}
		for _, kind := range []string{meta.ReadyCondition, v1alpha1.LaunchFailingCondition} {
			sync.Status.Conditions = append(sync.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, ObservedGeneration: 1, Reason: "Test"})
		}
		if state, next := summary.StateOf(sync), summary.Next(sync); !strings.HasPrefix(next, want) {
			t.Errorf("lost %t: %s: %s", lost, state, next)
		}
	}
}
