package conclude

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
)

// TestTerminationsThatAreStalled are in the status, a condition with an event when they change, and the drift status of the
// commit, until they are over; a pass that has not come so far leaves what was there without its command.
func TestTerminationsThatAreStalled(t *testing.T) {
	one := v1alpha1.Termination{
		Kind: "NodeClaim", Name: "general-1", Node: "ip-1", Pool: "general", Since: metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)),
		Message: "waits for PodDisruptionBudget shop/web", BreakGlass: &v1alpha1.BreakGlass{Command: "kubectl …"},
	}
	const words = "1 node is terminating for longer than expected: NodeClaim/general-1 (node ip-1) since 2026-01-01T12:00:00Z: waits for PodDisruptionBudget shop/web"
	var many []v1alpha1.Termination
	for range 30 {
		many = append(many, one)
	}
	for name, tc := range map[string]struct {
		before, found []v1alpha1.Termination
		count         int32
		says          string
		events        int
	}{
		"none":             {nil, []v1alpha1.Termination{}, 0, "", 0},
		"one":              {nil, []v1alpha1.Termination{one}, 1, words, 1},
		"still":            {[]v1alpha1.Termination{one}, []v1alpha1.Termination{one}, 1, words, 0},
		"not looked at":    {[]v1alpha1.Termination{one}, nil, 1, words, 0},
		"it is over":       {[]v1alpha1.Termination{one}, []v1alpha1.Termination{}, 0, "", 0},
		"more than twenty": {nil, many, 30, "30 nodes are terminating for longer than expected: ", 1},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{}
			sync.Status.Terminations, sync.Status.StalledTerminations = tc.before, int32(len(tc.before))
			(&Step{Sync: sync, Before: &v1alpha1.NodeSync{}}).setTerminationStalled()
			s := &Step{Sync: sync.DeepCopy(), Before: sync, Began: time.Unix(1000, 0)}
			s.Terminations, s.Drifts = tc.found, []Drift{}
			s.Now = func() time.Time { return s.Began }
			s.noteTerminations()
			s.setTerminationStalled()
			status := s.Sync.Status
			if status.StalledTerminations != tc.count || len(status.Terminations) != min(int(tc.count), maxTerminations) {
				t.Errorf("%d, of which %d are named", status.StalledTerminations, len(status.Terminations))
			}
			if got := conditions.GetMessage(s.Sync, v1alpha1.TerminationStalledCondition); !strings.HasPrefix(got, tc.says) || (got == "") != (tc.says == "") {
				t.Errorf("got  %q\nwant %q", got, tc.says)
			}
			if tc.count > 0 && (status.Terminations[0].BreakGlass == nil) != (tc.found == nil) {
				t.Errorf("the command: %+v", status.Terminations[0].BreakGlass)
			}
			if len(s.Notes) != tc.events {
				t.Errorf("events: %+v", s.Notes)
			}
			update, _ := s.sayDrift(queue.Update{})
			want := report.Success
			if tc.count > 0 {
				want = report.Failure
			}
			if update.State != want || tc.count == 1 && update.Description != words {
				t.Errorf("drift: %s: %s", update.State, update.Description)
			}
		})
	}
}

// TestTerminationsWhileAllNodesAreRemoved are reported by the removals.
func TestTerminationsWhileAllNodesAreRemoved(t *testing.T) {
	sync := &v1alpha1.NodeSync{Spec: v1alpha1.NodeSyncSpec{Drain: true}}
	sync.Status.Terminations, sync.Status.StalledTerminations = []v1alpha1.Termination{{Kind: "NodeClaim", Name: "general-1"}}, 1
	s := &Step{Sync: sync, Before: sync.DeepCopy()}
	s.noteTerminations()
	if len(sync.Status.Terminations) != 0 || sync.Status.StalledTerminations != 0 {
		t.Errorf("%+v", sync.Status.Terminations)
	}
}
