package changes

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// repoints says whether a Change has a NodePool name another EC2NodeClass than in the cluster, which
// is not Ready while the one that it names is: with it the pool could launch no node. The message is
// what is waited for.
func (s *Step) repoints(c plan.Change) (class render.Ref, message string, waits bool) {
	if c.Live == nil || c.Object.Desired == nil || c.Action != plan.Update && c.Action != plan.Adopt {
		return render.Ref{}, "", false
	}
	before, named := plan.Reference(c.Ref, c.Live)
	after, names := plan.Reference(c.Ref, c.Object.Desired)
	if !named || !names || before == after || !s.ready(before) || s.ready(after) {
		return render.Ref{}, "", false
	}
	return after, fmt.Sprintf("%s stays with %s until %s is Ready", c.Ref, before, after), true
}

// ready says whether an object is as the pass has found it.
func (s *Step) ready(ref render.Ref) bool {
	object := s.Live.Objects[ref]
	return object != nil && observe.Ready(object).Ready
}
