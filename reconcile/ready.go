package reconcile

import (
	"time"

	"github.com/plumbline-dev/plumbline/render"
)

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
