package teardown

import (
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// leavingClass is a class that is gone, or that another client has deleted.
func leavingClass(_ v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	switch {
	case !o.Exists:
		return gone(o), false
	case o.Terminating:
		return o.terminating(), false
	}
	return step{}, true
}

// referenced keeps a class while anything names it: deleted in use it would
// hang, stop the voluntary disruption of its pools, and could not be taken back.
func referenced(_ v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if len(o.ReferencedBy) == 0 {
		return step{}, true
	}
	s := step{
		phase: v1alpha1.RemovalDraining, reason: ReasonReferenced,
		message: "still named by " + finding.First(o.ReferencedBy), remaining: len(o.ReferencedBy),
	}
	switch {
	case o.Unremoved != "":
		s.message = o.Unremoved // the others go by themselves, or are named next
	case o.Waits != "":
		s.reason = o.Waits // it stands still no more than the pool does
	}
	return s, false
}

// waits is the reason for which a removal of one of these NodePools waits for its time, its turn or a person; empty where
// none does.
func (d *drive) waits(referencedBy []string) string {
	for _, it := range d.items {
		switch r := it.before; {
		case !slices.Contains(referencedBy, r.Kind+"/"+r.Name):
		case r.Phase == v1alpha1.RemovalHeld:
			return ReasonNodePoolHeld
		case inLine(r.Reason):
			return r.Reason
		}
	}
	return ""
}

// led waits until a pod of the controller, whose finalizer a class carries, leads: the
// deletion cannot be taken back, and a Deployment reports late that its pods are gone.
func led(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	s := step{phase: upTo(r.Phase, v1alpha1.RemovalDraining), reason: ReasonDeleting, message: ownsNothing, remaining: 0}
	switch {
	case !o.Fresh:
		s.actions = []Action{Reread{}}
	case o.Leader == nil:
		s.actions = []Action{AskLeader{}}
	case !o.Leader.Open:
		s.reason, s.message = ReasonControllerNotReady, o.Leader.Message
	default:
		return step{}, true
	}
	return s, false
}

// classGates wait for the controller, whose finalizer a class carries, and for
// arrivals, which may bring a pool that names it.
func classGates(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	return closed(upTo(r.Phase, v1alpha1.RemovalDraining), 0, o.controller(), o.cloud(), o.arrivals())
}
