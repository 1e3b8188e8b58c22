package reconcile

import (
	"context"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// observe reads whether each definition of the Set is Ready at its newest
// generation. What this pass has written speaks for itself: its status is not
// of its new spec yet.
func (p *pass) observe(context.Context) error {
	p.stages.objects = map[render.Ref]observe.Readiness{}
	if !p.stages.CRDs.Ready {
		return nil
	}
	for _, object := range p.want.Set.Objects {
		if live := p.live.Objects[object.Ref]; live != nil {
			p.stages.objects[object.Ref] = observe.Ready(live)
		}
	}
	for _, w := range p.applied.Written {
		p.stages.objects[w.Ref] = observe.Ready(w.Object)
		p.live.Objects[w.Ref] = w.Object
	}
	for _, object := range p.want.Set.Objects {
		if ready, seen := p.stages.objects[object.Ref]; seen && !ready.Ready {
			p.Wait(object.Ref.String(), ready.Message)
		}
	}
	return nil
}

// clocksDiffer is by how much the API server's clock may differ from ours.
const clocksDiffer = time.Minute

// arrivalsDone says whether everything of the revision is applied and each
// NodePool that came with it is Ready; if not, what is waited for. Nothing
// leaves before what takes its place is there.
func (p *pass) arrivalsDone(recorded time.Time) (done bool, waitingFor string) {
	if p.Unwritten != nil || p.sync.Status.LastAppliedRevision != p.snapshot.Revision {
		return false, "the arrivals and changes of " + p.snapshot.Revision
	}
	for _, object := range p.want.Set.Objects {
		live := p.live.Objects[object.Ref]
		if object.Ref.Kind != render.NodePool || live == nil {
			continue
		}
		isNew := live.GetCreationTimestamp().After(recorded.Add(-clocksDiffer))
		if isNew && !p.stages.objects[object.Ref].Ready {
			return false, "the new " + object.Ref.String()
		}
	}
	return true, ""
}
