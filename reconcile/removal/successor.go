package removal

import (
	"slices"
	"sync"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// successorGate returns the gate of each removal that is open while a NodePool of the Set could take the pods:
// Ready, with room to grow, and with nodes that can be launched. If the removed pool moves to some of them, only
// these count. reconcile/landing has simulated before whether each pod fits.
//
// Removals that move to no pool share one answer: to find it once matters where hundreds of pools are removed.
func (s *Step) successorGate() func(v1alpha1.Removal) teardown.Gate {
	anyPool := sync.OnceValue(func() teardown.Gate { return s.takenBy(nil) })
	return func(r v1alpha1.Removal) teardown.Gate {
		if r.Kind != render.NodePool || !s.successorWanted(r) {
			return teardown.Gate{Open: true}
		}
		if s.Plan != nil && s.Plan.Landing.Asking && slices.ContainsFunc(s.Plan.Removals, func(c plan.Candidate) bool { return c.UID == r.UID }) {
			return teardown.Gate{Message: plan.Simulating}
		}
		if targets := s.targets(r); len(targets) > 0 {
			return s.takenBy(targets)
		}
		return anyPool()
	}
}

// takenBy is the gate of pods that one of some NodePools has to take; nil stands for all of Git's.
func (s *Step) takenBy(targets []render.Ref) teardown.Gate {
	var unfit []string
	var room teardown.Room
	for _, object := range s.Set.Objects {
		if object.Ref.Kind != render.NodePool || len(targets) > 0 && !slices.Contains(targets, object.Ref) {
			continue
		}
		why := s.unfit(object.Ref)
		if why == "" {
			if !s.joins(&room, object.Ref) {
				return teardown.Gate{Open: true}
			}
			continue
		}
		unfit = append(unfit, object.Ref.String()+" "+why)
	}
	if room.Pools != "" {
		return teardown.Gate{Open: true, Room: &room}
	}
	if len(unfit) == 0 {
		return teardown.Gate{Message: "Git has no NodePool that could take the pods: add one, or set guard.allowLastPool"}
	}
	slices.Sort(unfit)
	if len(targets) > 0 {
		return teardown.Gate{Message: "no NodePool to which it moves could take the pods: " + finding.Some(unfit)}
	}
	return teardown.Gate{Message: "no NodePool could take the pods: " + finding.Some(unfit)}
}

// joins adds to the room what a NodePool that could take pods has left of its limits, and says
// whether there is a limit still: of a resource that one of them does not limit there is none.
func (s *Step) joins(room *teardown.Room, ref render.Ref) bool {
	left := plan.LimitsLeft(s.Live.Objects[ref].Unstructured)
	if room.Pools == "" {
		room.Pools, room.Left = ref.String()+" has", left
		return len(left) > 0
	}
	room.Pools = "the NodePools of Git together have"
	for name, before := range room.Left {
		more, limited := left[name]
		if !limited {
			delete(room.Left, name)
			continue
		}
		before.Add(more)
		room.Left[name] = before
	}
	return len(room.Left) > 0
}

// successorWanted says whether pods have to find a place elsewhere. They have not
// where Git has no NodePool left that may grow and guard.allowLastPool says so, or people have approved
// just that.
func (s *Step) successorWanted(r v1alpha1.Removal) bool {
	if !s.Sync.Spec.Guard.AllowLastPool && !r.LastPool {
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
	if !plan.MayGrow(live.Unstructured) {
		return "may not grow: it is static or has a limit of 0"
	}
	if limit := plan.LimitReached(live.Unstructured); limit != "" {
		return "has reached its limit of " + limit
	}
	if _, failing := s.Nodes.Launches.Failed(ref.Name); failing {
		return "fails to launch nodes"
	}
	if late := s.unregistered(ref.Name); late != "" {
		return "has nodes that do not register: NodeClaim/" + late
	}
	if !observe.Registers(live).Ready {
		return "has nodes that do not register (NodeRegistrationHealthy is False until one does, or its definition changes)"
	}
	return ""
}

// unregistered names the oldest NodeClaim of a pool that has an instance and whose node should
// have registered by now, unless the node of a newer one has: it was bad luck then.
func (s *Step) unregistered(pool string) string {
	var registered time.Time
	var late *plan.NodeClaim
	for i := range s.Live.NodeClaims {
		c := &s.Live.NodeClaims[i]
		switch {
		case c.Pool != pool:
		case c.Node != "":
			if c.Created.After(registered) {
				registered = c.Created
			}
		case c.ProviderID != "" && !s.Now.Before(c.Created.Add(observe.RegistersWithin)):
			if late == nil || c.Created.Before(late.Created) {
				late = c
			}
		}
	}
	if late == nil || registered.After(late.Created) {
		return ""
	}
	return late.Name
}
