package changes

import (
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Ready says whether each definition of a Set is Ready at its newest generation. What was
// just written speaks for itself, since its status is not of its new spec yet, and takes its
// place in what lives. What is not Ready is waited for.
func Ready(set *render.Set, live plan.Live, written []apply.Written) (observe.ByRef, finding.Findings) {
	readiness, found := make(observe.ByRef, len(set.Objects)), finding.Findings{}
	for _, object := range set.Objects {
		if lives := live.Objects[object.Ref]; lives != nil {
			readiness[object.Ref] = observe.Ready(lives)
		}
	}
	for _, w := range written {
		object := plan.NewObject(w.Object)
		readiness[w.Ref], live.Objects[w.Ref] = observe.Ready(object), object
	}
	for _, object := range set.Objects {
		if ready, seen := readiness[object.Ref]; seen && !ready.Ready {
			found.Wait(object.Ref.String(), ready.Message)
		}
	}
	return readiness, found
}
