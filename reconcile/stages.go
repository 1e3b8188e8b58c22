package reconcile

import (
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// stages is how far a pass has got, by Stage.
type stages struct {
	install.Installed
	// objects is the readiness of each definition that was looked at.
	objects map[render.Ref]observe.Readiness
}

// list says how far each Stage of a Set has come; nil without a Set.
func (s stages) list(set *render.Set) []conclude.Stage {
	if set == nil {
		return nil
	}
	stage := func(name render.Stage, r observe.Readiness) conclude.Stage {
		return conclude.Stage{Name: name, Ready: r.Ready, Message: r.Message}
	}
	return []conclude.Stage{
		stage(render.StageCRDs, s.CRDs),
		stage(render.StageController, s.Controller),
		stage(render.StageNodeClasses, s.of(set, render.EC2NodeClass)),
		stage(render.StageNodePools, s.of(set, render.NodePool)),
	}
}

// of sums up the objects of one kind: the first that is not Ready speaks.
func (s stages) of(set *render.Set, kind string) observe.Readiness {
	for _, object := range set.Objects {
		if object.Ref.Kind != kind {
			continue
		}
		ready, seen := s.objects[object.Ref]
		if !seen {
			return observe.Readiness{Message: object.Ref.String() + " is not applied yet"}
		}
		if !ready.Ready {
			return ready
		}
	}
	return observe.Readiness{Ready: true}
}
