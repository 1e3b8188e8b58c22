package promotion_test

import (
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/promotion"
)

// TestObserve: what becomes of a commit. Only a failure takes a success back.
func TestObserve(t *testing.T) {
	good := promotion.Observed{Commit: "a", RolledOut: true}
	rolls := promotion.Observed{Commit: "a", Effect: promotion.Effect{Nodes: 3, Of: 10}}
	braked := promotion.Observed{Commit: "a", Failed: "rollout stopped in NodePool/gpu"}
	for name, c := range map[string]struct {
		seen    []promotion.Observed
		state   promotion.State
		since   int // the number of the observation
		changes int
	}{
		"it is rolled out":              {[]promotion.Observed{rolls, rolls, good}, promotion.Succeeded, 2, 2},
		"it is braked":                  {[]promotion.Observed{rolls, braked, braked}, promotion.Failed, 1, 2},
		"it is resumed after a brake":   {[]promotion.Observed{rolls, braked, rolls}, promotion.InProgress, 2, 3},
		"drift after a success":         {[]promotion.Observed{good, {Commit: "a"}, good}, promotion.Succeeded, 0, 1},
		"a brake after a success":       {[]promotion.Observed{good, braked, good}, promotion.Succeeded, 2, 3},
		"more nodes than first known":   {[]promotion.Observed{{Commit: "a"}, rolls}, promotion.InProgress, 0, 2},
		"the last nodes are replaced":   {[]promotion.Observed{rolls, {Commit: "a", Effect: promotion.Effect{Nodes: 1, Of: 10}}}, promotion.InProgress, 0, 1},
		"nodes after it was rolled out": {[]promotion.Observed{good, rolls}, promotion.Succeeded, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, changes := promotion.Record{Cluster: "eu", NodeSync: "eu"}, 0
			for i, o := range c.seen {
				next, changed := r.Observe(o, now.Add(time.Duration(i)*time.Minute))
				if changed {
					changes++
				}
				r = next
			}
			v := r.Of("a")
			if v.State != c.state || !v.Since.Equal(now.Add(time.Duration(c.since)*time.Minute)) || changes != c.changes {
				t.Errorf("got %+v after %d changes", v, changes)
			}
		})
	}
}
