package removal

import (
	"slices"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// successorGate is open while a NodePool of the Set could take the pods of one
// that leaves: Ready, with room to grow, and with nodes that can be launched.
// Whether each pod fits into it is Karpenter's to find out.
func (s *Step) successorGate(r v1alpha1.Removal) teardown.Gate {
	if r.Kind != render.NodePool || !s.successorWanted() {
		return teardown.Gate{Open: true}
	}
	var unfit []string
	for _, object := range s.Set.Objects {
		if object.Ref.Kind != render.NodePool {
			continue
		}
		why := s.unfit(object.Ref)
		if why == "" {
			return teardown.Gate{Open: true}
		}
		unfit = append(unfit, object.Ref.String()+" "+why)
	}
	if len(unfit) == 0 {
		return teardown.Gate{Message: "Git has no NodePool that could take the pods: add one, or set guard.allowLastPool"}
	}
	slices.Sort(unfit)
	return teardown.Gate{Message: "no NodePool could take the pods: " + finding.Some(unfit)}
}

// successorWanted says whether pods have to find a place elsewhere. They have not
// where Git has no NodePool left that may grow and guard.allowLastPool says so.
func (s *Step) successorWanted() bool {
	if !s.Sync.Spec.Guard.AllowLastPool {
		return true
	}
	return slices.ContainsFunc(s.Set.Objects, func(object render.Object) bool {
		return object.Ref.Kind == render.NodePool && plan.MayGrow(object.Desired)
	})
}

// unfit says why a NodePool of the Set can take no pods; empty where it can.
func (s *Step) unfit(ref render.Ref) string {
	live := s.Live.Objects[ref]
	if live == nil {
		return "is not in the cluster"
	}
	if ready := s.Ready[ref]; !ready.Ready {
		return "is not Ready"
	}
	if !plan.MayGrow(live) {
		return "may not grow: it is static or has a limit of 0"
	}
	if limit := plan.LimitReached(live); limit != "" {
		return "has reached its limit of " + limit
	}
	if _, failing := s.Launches.Failed(ref.Name); failing {
		return "fails to launch nodes"
	}
	return ""
}
