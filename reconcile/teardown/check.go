package teardown

import (
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// held keeps an object for which a person's word is wanted. Where the object is
// gone and its NodeClaims end with it, there is nothing left to hold.
func held(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if o.Hold == nil || !o.Exists && len(o.undeleted()) == 0 {
		return step{}, true
	}
	s := step{phase: v1alpha1.RemovalHeld, reason: o.Hold.Reason, reasons: o.Hold.Reasons, message: o.Hold.Message, remaining: len(o.NodeClaims)}
	if o.withholds() || o.alive() && o.Scaled { // it was stopped before it was held
		s.actions = []Action{RestoreGrowth{Paced: o.drifting(r)}}
		if !o.Recorded { // another client has deleted the record: it is written again first
			s.actions = []Action{Note{}}
		}
	}
	return s, false
}

// recording writes the removal down and does nothing else in this pass.
func recording(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if o.Recorded {
		return step{}, true
	}
	return step{
		phase:     upTo(r.Phase, v1alpha1.RemovalFinalizing),
		reason:    ReasonRecording,
		message:   "recorded, waiting to start",
		remaining: unknown,
		actions:   []Action{Note{}},
	}, false
}

// ending watches the object vanish, once EC2 was asked and the object deleted.
func ending(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	switch {
	case r.Phase != v1alpha1.RemovalFinalizing:
		return step{}, true
	case !o.Exists && len(o.NodeClaims) == 0:
		return gone(o), false
	case o.Terminating && len(o.NodeClaims) == 0:
		return o.terminating(), false
	case !o.Fresh:
		return step{phase: r.Phase, reason: r.Reason, message: r.Message, remaining: unknown, actions: []Action{Reread{}}}, false
	}
	return step{}, true
}

// deleting deletes an object that owns nothing any more, as it stands past the
// cache at this moment.
func deleting(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	switch {
	case !o.Exists:
		return gone(o), false
	case o.Terminating && o.Fresh:
		return o.terminating(), false
	}
	s := step{phase: upTo(r.Phase, v1alpha1.RemovalVerifyingCloud), reason: ReasonDeleting, message: ownsNothing, remaining: 0}
	if o.EC2 != nil {
		s.phase = v1alpha1.RemovalVerifyingCloud
	}
	if o.Fresh {
		s.actions = []Action{DeleteObject{UID: r.UID, ResourceVersion: o.ResourceVersion}}
	} else {
		s.actions = []Action{Reread{}}
	}
	return s, false
}

const ownsNothing = "nothing hangs on it any more"

// gone ends a removal whose object is, past the cache, not there.
func gone(o Observation) step {
	if !o.Fresh {
		s := o.terminating()
		s.actions = []Action{Reread{}}
		return s
	}
	return step{phase: v1alpha1.RemovalGone, actions: []Action{Forget{}}}
}

// terminating waits for the finalizers of an object that is deleted.
func (o Observation) terminating() step {
	s := step{phase: v1alpha1.RemovalFinalizing, reason: ReasonTerminating, message: "deleted", remaining: 0}
	switch {
	case len(o.ReferencedBy) > 0:
		s.message = "it is deleted and named by " + finding.First(o.ReferencedBy)
	case len(o.Finalizers) > 0:
		s.message = "deleted; waits for " + blocker.WaitsForFinalizers(o.Finalizers)
	}
	return s
}

// gate is a Gate with the reason for which it is closed.
type gate struct {
	Gate
	reason string
}

func (o Observation) queue() gate {
	return gate{Gate{Open: o.Queued == "", Message: o.Queued}, ReasonQueued}
}
func (o Observation) controller() gate { return gate{o.Controller, ReasonControllerNotReady} }
func (o Observation) cloud() gate      { return gate{o.Cloud, ReasonCloudUnverified} }
func (o Observation) arrivals() gate   { return gate{o.Arrivals, ReasonArrivalsPending} }
func (o Observation) successor() gate  { return gate{o.Successor, ReasonSuccessorMissing} }
func (o Observation) grace() gate      { return gate{o.Grace, ReasonGrace} }
func (o Observation) window() gate {
	message := o.Frozen
	if message == "" && o.replaces() && len(o.undeleted()) > 0 {
		message = o.Closed
	}
	return gate{Gate{Open: message == "", Message: message}, ReasonFrozen}
}

// closed returns a step that waits before the first gate that is closed.
func closed(phase v1alpha1.RemovalPhase, remaining int, gates ...gate) (step, bool) {
	for _, g := range gates {
		if !g.Open {
			return step{phase: phase, reason: g.reason, message: g.Message, remaining: remaining}, false
		}
	}
	return step{}, true
}

// noting adds to a step what the record lacks.
func (s step) noting(o Observation) step {
	fresh, seen := o.news()
	for i, a := range s.actions {
		switch a := a.(type) {
		case Forget:
			return s
		case Note:
			s.actions[i] = Note{Fresh: fresh, Seen: seen, Workloads: join(a.Workloads, o.Evicted), Budgets: a.Budgets}
			return s
		}
	}
	if s.phase != v1alpha1.RemovalHeld && len(fresh)+len(seen)+len(o.Evicted) > 0 {
		s.actions = append([]Action{Note{Fresh: fresh, Seen: seen, Workloads: o.Evicted}}, s.actions...)
	}
	return s
}

// elsewhere pauses the removal of what goes to another NodeSync, or has gone to it
// since the Plan was made: nothing more of it is ended, or changed, from here.
func elsewhere(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if o.GoesTo == "" || !o.alive() {
		return step{}, true
	}
	s := step{
		phase: upTo(r.Phase, v1alpha1.RemovalDraining), reason: ReasonOtherNodeSync,
		message: "NodeSync " + o.GoesTo + " has it: it is handed over, and nothing more of it is ended", remaining: unknown,
	}
	return s.recall(o), false
}
