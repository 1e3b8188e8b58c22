package evaluate

import (
	"context"
	"errors"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// TestChartsWaitForTheHistory shows that a change of the charts waits while the Git host was not queried yet, and not
// if it does not know the history.
func TestChartsWaitForTheHistory(t *testing.T) {
	for name, c := range map[string]struct {
		charts  bool
		err     error
		asked   int
		unasked bool
	}{
		"they are as Git says":   {unasked: true},
		"the host does not know": {charts: true, err: &source.HistoryError{Since: "old", Reason: "the host does not give it out"}, asked: 1},
		"the host does not say":  {charts: true, err: errors.New("connection refused"), asked: 1, unasked: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := planStep(nodeSync(func(n *v1alpha1.NodeSync) { n.Status.LastAppliedRevision = "main@sha1:old" }))
			s.Snapshot = &render.Snapshot{Revision: "main@sha1:new", Commit: "new"}
			s.ChangesCharts = func() bool { return c.charts }
			asked := 0
			s.Order = func(string) source.Order { return source.OrderUnknown }
			s.FindOrder = func(context.Context, string) (source.Order, error) { asked++; return source.OrderUnknown, c.err }
			if !s.orderPending(s.Doubt()) {
				t.Error("nobody was asked yet")
			}
			s.requestOrder(t.Context(), Planned{Plan: &plan.Plan{}, Doubt: s.Doubt()})
			if got := s.orderPending(s.Doubt()); asked != c.asked || got != c.unasked {
				t.Errorf("asked %d times, and it is open: %t", asked, got)
			}
			s.Snapshot = &render.Snapshot{Revision: "main@sha1:newer", Commit: "newer"}
			if !s.orderPending(s.Doubt()) {
				t.Error("of another HEAD nobody was asked yet")
			}
		})
	}
}

// TestAnOlderStatusDoesNotShowDrift shows that what a status has as applied shows which differences are drift only if no
// newer revision was applied.
func TestAnOlderStatusDoesNotShowDrift(t *testing.T) {
	for recorded, isNew := range map[string]bool{"main@sha1:old": false, "main@sha1:newer": true} {
		s := planStep(nodeSync(func(n *v1alpha1.NodeSync) {
			n.Status.LastAppliedRevision, n.Status.LastAppliedInputs = "main@sha1:old", "1"
		}))
		s.Snapshot, s.Set, s.Recorded = &render.Snapshot{Revision: "main@sha1:old", Commit: "old"}, &render.Set{Sum: "1"}, recorded
		s.Order = func(string) source.Order { return source.OrderUnknown }
		policy, err := s.policy(t.Context(), nil, s.Doubt())
		if err != nil || policy.NewRevision != isNew {
			t.Errorf("%s is recorded: new %t, %v", recorded, policy.NewRevision, err)
		}
	}
}

// TestALostRecordIsADoubt shows this, in addition to the doubts from the status.
func TestALostRecordIsADoubt(t *testing.T) {
	for name, c := range map[string]struct {
		order source.Order
		want  string
	}{
		"HEAD is newer": {source.OrderNewer, v1alpha1.ReasonStatusLost},
		"HEAD is older": {source.OrderOlder, v1alpha1.ReasonOlderRevision},
	} {
		t.Run(name, func(t *testing.T) {
			s := planStep(nodeSync(func(n *v1alpha1.NodeSync) { n.Status.LastAppliedRevision = "main@sha1:old" }))
			s.Snapshot, s.RecordLost = &render.Snapshot{Revision: "main@sha1:new", Commit: "new"}, true
			s.Order = func(string) source.Order { return c.order }
			doubt := s.Doubt()
			if !is(doubt, c.want) {
				t.Fatalf("in doubt: %+v", doubt)
			}
			policy, err := s.policy(t.Context(), nil, doubt)
			if err != nil || !policy.StatusLost || policy.BranchReset != (c.want == v1alpha1.ReasonOlderRevision) {
				t.Errorf("what HEAD lacks is not held as lost: %+v, %v", policy, err)
			}
		})
	}
}
