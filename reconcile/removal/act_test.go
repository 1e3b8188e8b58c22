package removal

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestGrowthThatAWebhookGivesBack checks that the error names the changed limit: the pool would launch nodes while its
// own are terminated.
func TestGrowthThatAWebhookGivesBack(t *testing.T) {
	for name, c := range map[string]struct {
		limits any
		want   string
	}{
		"as it was written": {map[string]any{"cpu": "0"}, ""},
		"as a number":       {map[string]any{"cpu": int64(0)}, ""},
		"beside others":     {map[string]any{"cpu": "0", "memory": "1Gi"}, ""},
		"otherwise":         {map[string]any{"cpu": "77"}, "stop growth of NodePool/batch: a mutating webhook or policy changed spec.limits.cpu from 0 to 77: exempt NodePools from it"},
	} {
		answer := &unstructured.Unstructured{Object: map[string]any{
			"kind": "NodePool", "metadata": map[string]any{"name": "batch"}, "spec": map[string]any{"limits": c.limits},
		}}
		err := growthStopped(answer)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestRestoreOfAReplacedPool checks that the pool gets its disruption budgets back once Karpenter considers no node
// drifted any more, and that nothing of the removal's manager is left then.
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

// TestCallBack checks that Karpenter starts no more replacements after Revoke, and that the next reconcile grants the
// budget again. Pools without such a budget, and other pools of the same name, are not written.
func TestCallBack(t *testing.T) {
	s, batch := replaced(t, map[string]any{"team": "a"}, "a", "b")
	s.passes("batch Pacing")
	s.passes("batch Pacing, stop growth")
	calls := func() error { return Revoke(t.Context(), s.world(), s.sync, s.now) }
	s.exists(batch)
	before := batch.GetResourceVersion()
	if err := calls(); err != nil {
		t.Fatal(err)
	}
	if s.exists(batch); batch.GetResourceVersion() != before {
		t.Error("a pool is written of which nothing is lent")
	}
	s.passes("batch Draining, have Karpenter replace 1 at a time")
	other := s.sync.DeepCopy()
	other.Status.Removals[0].UID = "another"
	if err := Revoke(t.Context(), s.world(), other, s.now); err != nil {
		t.Fatal(err)
	}
	if s.exists(batch); replacingOf(batch, s.now).Nodes != 1 {
		t.Fatal("what is lent of another pool of the name is called back")
	}
	s.leader = errors.New("not the leader")
	if err := calls(); err == nil || !strings.Contains(err.Error(), "not the leader") {
		t.Errorf("error %v", err)
	}
	s.leader = nil
	if err := calls(); err != nil {
		t.Fatal(err)
	}
	s.exists(batch)
	if r := replacingOf(batch, s.now); r == nil || r.Nodes != 0 {
		t.Errorf("replacing %+v", r)
	}
	if diff := cmp.Diff(pacedBudgets([]any{map[string]any{"nodes": "20%"}}, 0, s.now), plan.BudgetsOf(batch)); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
	s.sync.Status.Removals[0].Phase = v1alpha1.RemovalDraining
	s.passes("batch Draining, have Karpenter replace 1 at a time")
}
