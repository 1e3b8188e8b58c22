package teardown

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestCallBack: Karpenter begins to replace no more, and a pass that goes on lends again. What has not been lent, or
// belongs to another pool of the name, is not written.
func TestCallBack(t *testing.T) {
	s, batch := replaced(t, map[string]any{"team": "a"}, "a", "b")
	s.passes("batch Pacing")
	s.passes("batch Pacing, stop growth")
	calls := func() error { return CallBack(t.Context(), s.world(), s.sync, s.now) }
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
	if err := CallBack(t.Context(), s.world(), other, s.now); err != nil {
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
