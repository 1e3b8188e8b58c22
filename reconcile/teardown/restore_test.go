package teardown

import (
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestRestoreOfAReplacedPool: its disruption budgets come back once Karpenter takes no node for drifted any more, and
// nothing of the removal's manager is left then.
func TestRestoreOfAReplacedPool(t *testing.T) {
	s, batch := replaced(t, map[string]any{"team": "a"}, "a", "b")
	for range 3 {
		s.pass()
	}
	drifts := func(is metav1.ConditionStatus) {
		s.claim("a", func(c *karpv1.NodeClaim) {
			c.Status.Conditions = []status.Condition{{Type: karpv1.ConditionTypeDrifted, Status: is, Reason: plan.DriftOfPool, LastTransitionTime: metav1.NewTime(s.now)}}
		})
	}
	drifts(metav1.ConditionTrue)
	git := []any{map[string]any{"nodes": "20%"}}
	restores := func(later bool, budgets []any) {
		t.Helper()
		s.exists(batch)
		again, err := Restore(t.Context(), s.world(), s.sync, s.now, []*unstructured.Unstructured{batch}, nil)
		if err != nil || again.IsZero() == later {
			t.Fatalf("again at %s, error %v", again, err)
		}
		s.exists(batch)
		labels, _, _ := unstructured.NestedStringMap(batch.Object, "spec", "template", "metadata", "labels")
		if diff := cmp.Diff(map[string]string{"team": "a"}, labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(budgets, plan.BudgetsOf(batch)); diff != "" {
			t.Errorf("budgets (-want +got):\n%s", diff)
		}
		if cpu := limits(t, batch)["cpu"]; cpu != "100" {
			t.Errorf("limits.cpu %v", cpu)
		}
	}
	paced := pacedBudgets(git, 0, time.Time{})
	restores(true, paced)
	restores(true, paced)
	drifts(metav1.ConditionFalse)
	restores(false, git)
	if restrained(batch) >= 0 {
		t.Errorf("the removal still owns fields: %v", batch.GetManagedFields())
	}
}
