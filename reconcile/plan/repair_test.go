package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestRepairStopped: a budget of 0 stops node repair, unless its reasons leave out Unhealthy.
func TestRepairStopped(t *testing.T) {
	of := func(budgets string) string {
		return pool("a", "default", "disruption: {consolidateAfter: 0s, budgets: "+budgets+"}")
	}
	for name, c := range map[string]struct {
		before, after string
		stopped       bool
	}{
		"a budget of 0":              {before: of(`[{nodes: "10%"}]`), after: of(`[{nodes: "0"}]`), stopped: true},
		"it was so before":           {before: of(`[{nodes: "0"}]`), after: of(`[{nodes: "0"}, {nodes: "1"}]`)},
		"for drift":                  {before: of(`[{nodes: "10%"}]`), after: of(`[{nodes: "0", reasons: [Drifted]}]`)},
		"in a window":                {before: of(`[{nodes: "10%"}]`), after: of(`[{nodes: "0", schedule: "0 9 * * *", duration: 8h}]`)},
		"a new pool with a budget 0": {after: of(`[{nodes: "0"}]`), stopped: true},
		"a new pool":                 {after: of(`[{nodes: "1"}]`)},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			cluster.have(t, owner, class("default"))
			if c.before != "" {
				cluster.have(t, owner, c.before)
			}
			p := cluster.plan(t, class("default"), c.after)
			got := plan.RepairStopped(p.Changes, time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))
			if want := []string{"NodePool/a"}; slices.Equal(got, want) != c.stopped || !c.stopped && len(got) > 0 {
				t.Errorf("repair is stopped in %q", got)
			}
		})
	}
}
