package status

import (
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// TestAWaitForAnotherNodeSyncStalls after stallAfter: it may not end by itself.
func TestAWaitForAnotherNodeSyncStalls(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		waits []finding.Wait
		want  Verdict
		state report.State
	}{
		"for a while": {
			[]finding.Wait{{On: "NodeSync/a", Message: "it fails", Stalls: now.Add(time.Second)}},
			Verdict{Class: Working, Reason: v1alpha1.ReasonWaiting, Message: "waiting for NodeSync/a: it fails"},
			report.Pending,
		},
		"too long": {
			[]finding.Wait{{On: "NodeSync/a", Message: "it fails", Stalls: now}},
			Verdict{Class: Stuck, Reason: v1alpha1.ReasonStalled, Message: "stalled: waiting for NodeSync/a: it fails"},
			report.Failure,
		},
		"too long, beside something that comes by itself": {
			[]finding.Wait{{On: "NodePool/b", Message: "not Ready"}, {On: "NodeSync/a", Message: "it fails", Stalls: now}},
			Verdict{Class: Stuck, Reason: v1alpha1.ReasonStalled, Message: "stalled: waiting for NodeSync/a: it fails"},
			report.Failure,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{}
			s := &Step{Sync: sync, Before: sync, Began: now}
			s.Waits = c.waits
			if got := s.Verdict(); got != c.want || got.CommitState() != c.state {
				t.Errorf("verdict %+v (%s), want %+v (%s)", got, got.CommitState(), c.want, c.state)
			}
		})
	}
}

// TestTwoWaitsThatAlternate are reported as one of them, as long as that is waited for; a Stage, on which objects
// depend, comes first.
func TestTwoWaitsThatAlternate(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a, b := finding.Wait{On: "NodePool/a", Message: "not Ready"}, finding.Wait{On: "NodePool/b", Message: "not Ready"}
	stage := finding.Wait{On: "Controller", Message: "no replica is ready"}
	sync := &v1alpha1.NodeSync{}
	for i, look := range []struct {
		waits []finding.Wait
		want  string
	}{
		{[]finding.Wait{a, b}, a.On},
		{[]finding.Wait{b}, b.On},
		{[]finding.Wait{a, b}, b.On},
		{[]finding.Wait{b}, b.On},
		{[]finding.Wait{stage, b}, stage.On},
		{[]finding.Wait{a, b}, a.On},
		{[]finding.Wait{a}, a.On},
	} {
		s := &Step{Sync: sync.DeepCopy(), Before: sync, Began: now.Add(time.Duration(i) * time.Minute)}
		s.Waits = look.waits
		s.setWaiting(s.Verdict())
		if got := s.Sync.Status.Waiting; got.For != look.want || s.Verdict().Message != "waiting for "+got.For+": "+got.Message {
			t.Errorf("pass %d: waiting for %s (%s), want %s", i, got.For, s.Verdict().Message, look.want)
		}
		sync = s.Sync
	}
}
