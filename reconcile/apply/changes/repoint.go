package changes

import (
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// repoints says whether a Change has a NodePool name another EC2NodeClass than in the cluster, which
// is not Ready while the one that it names is: with it the pool could launch no node. A class that this
// pass writes is Ready once a later one has found it so. The message is what is waited for.
func (s *Step) repoints(c plan.Change) (class render.Ref, message string, waits bool) {
	changes := c.Action == plan.Update || c.Action == plan.Adopt || c.Action == plan.TakeBack && c.Reason == plan.ReasonBrakeEnds
	if !changes || c.Live == nil || c.Object.Desired == nil {
		return render.Ref{}, "", false
	}
	before, named := render.Reference(c.Ref, c.Live)
	after, names := render.Reference(c.Ref, c.Object.Desired)
	if !named || !names || before == after || !s.ready(before) || s.ready(after) && !s.writes(after) {
		return render.Ref{}, "", false
	}
	return after, fmt.Sprintf("%s stays with %s until %s is Ready", c.Ref, before, after), true
}

// writes says whether the Plan writes an object: what is known of it is of another one by then.
func (s *Step) writes(ref render.Ref) bool {
	return slices.ContainsFunc(s.Plan.Changes, func(c plan.Change) bool { return c.Ref == ref && c.Action.Writes() })
}

// ready says whether an object is as the pass has found it.
func (s *Step) ready(ref render.Ref) bool {
	object := s.Live.Objects[ref]
	return object != nil && observe.Ready(object).Ready
}
