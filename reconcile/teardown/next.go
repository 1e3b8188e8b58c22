package teardown

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// The reasons of a Removal that is under way. A held one has the guard's.
const (
	ReasonRecording          = "Recording"
	ReasonGrace              = "Grace"
	ReasonStoppingGrowth     = "StoppingGrowth"
	ReasonControllerNotReady = "ControllerNotReady"
	ReasonCloudUnverified    = v1alpha1.ReasonCloudUnverified
	ReasonArrivalsPending    = "ArrivalsPending"
	ReasonSuccessorMissing   = "SuccessorMissing"
	ReasonQueued             = v1alpha1.ReasonQueued
	ReasonTurnPending        = "TurnPending"
	ReasonRecordFull         = "RecordFull"
	ReasonPodsPending        = "PodsPending"
	ReasonNodeClaimsLeaving  = "NodeClaimsLeaving"
	ReasonReferenced         = "Referenced"
	ReasonAskingEC2          = "AskingEC2"
	ReasonEC2NotAnswering    = "EC2NotAnswering"
	ReasonInstancesLeaving   = "InstancesLeaving"
	ReasonUnverifiable       = "Unverifiable"
	ReasonDeleting           = "Deleting"
	ReasonDrained            = v1alpha1.ReasonDrained
	ReasonTerminating        = "Terminating"
	ReasonUnknownKind        = "UnknownKind"
	ReasonOtherNodeSync      = "OtherNodeSync"
	ReasonFrozen             = plan.ReasonFrozen
	ReasonNodePoolHeld       = "NodePoolHeld"
)

// Next takes one removal as far as what is seen allows. It returns the removal
// as it is to be written and what is to be done, in this order. While a question
// is among the actions (AskEC2, Reread), answer it and ask Next again from the
// same removal: what else it returned still holds, but more may follow. now is
// only compared, and written where something moved.
func Next(r v1alpha1.Removal, o Observation, now time.Time, stallAfter time.Duration) (v1alpha1.Removal, []Action) {
	var s step
	if r.Kind == render.EC2NodeClass {
		s = first(r, o, now, held, recording, ending, elsewhere, leavingClass, referenced, classGates, led, deleting)
	} else {
		s = first(r, o, now, held, recording, ending, elsewhere, gated, growing, draining, scaling, rests, verifying, stays, deleting)
	}
	return s.kept(r, now, stallAfter), s.actions
}

// check is one reason why a removal goes no further for now, and the step it is
// at by that. Where it does not apply, it lets the removal pass.
type check func(r v1alpha1.Removal, o Observation, now time.Time) (s step, pass bool)

// first returns the step of the first check that lets the removal not pass. The
// last one never does.
func first(r v1alpha1.Removal, o Observation, now time.Time, checks ...check) step {
	for _, look := range checks {
		if s, pass := look(r, o, now); !pass {
			return s.noting(o)
		}
	}
	return step{phase: r.Phase, reason: r.Reason, message: r.Message, remaining: unknown}
}

// step is where one look at a removal leads.
type step struct {
	phase           v1alpha1.RemovalPhase
	reason, message string
	// reasons are all reasons to hold it, if there is more than one.
	reasons []string
	// remaining is what is still there; unknown leaves it as it was.
	remaining int
	actions   []Action
	// moves says that the actions end something.
	moves bool
}

const unknown = -1

// kept writes a step into the removal. What did not move is not touched, so
// that an idle removal is never written.
func (s step) kept(r v1alpha1.Removal, now time.Time, stallAfter time.Duration) v1alpha1.Removal {
	at := metav1.NewTime(now).Rfc3339Copy()
	progress := s.moves || rank(s.phase) > rank(r.Phase)
	if s.phase != r.Phase {
		r.Phase, r.Since = s.phase, at
	}
	if s.remaining != unknown {
		progress = progress || int32(s.remaining) < r.Remaining
		r.Remaining = int32(s.remaining)
	}
	progress = progress || inLine(r.Reason) && !inLine(s.reason)
	r.Reason, r.Reasons, r.Message = s.reason, s.reasons, s.message
	r = rewound(r, at)
	switch {
	case s.phase == v1alpha1.RemovalHeld, s.phase == v1alpha1.RemovalGone, inLine(s.reason):
		r.Stalled = nil
		if progress {
			r.LastProgress = at
		}
	case progress:
		r.LastProgress, r.Stalled = at, nil
	case r.Stalled == nil && now.Sub(r.LastProgress.Time) >= stallAfter:
		r.Stalled = &at
	}
	return r
}

// inLine says of a reason that a removal waits for its time or its turn, or for a person who has the
// pool grow again or releases it: that is no stall.
func inLine(reason string) bool {
	return slices.Contains([]string{ReasonGrace, ReasonQueued, ReasonTurnPending, ReasonRecordFull, ReasonFrozen, ReasonDrained, ReasonNodePoolHeld}, reason)
}

// rewound brings times that lie ahead, since the clock was put back, to now: until
// then the removal would count as stalled never, and its grace would last.
func rewound(r v1alpha1.Removal, now metav1.Time) v1alpha1.Removal {
	if r.RecordedAt.After(now.Time) {
		r.RecordedAt = now
	}
	if r.LastProgress.After(now.Time) {
		r.LastProgress = now
	}
	return r
}

// rank orders the phases. Only a step forward is progress.
func rank(phase v1alpha1.RemovalPhase) int {
	switch phase {
	case v1alpha1.RemovalPacing:
		return 1
	case v1alpha1.RemovalDraining:
		return 2
	case v1alpha1.RemovalVerifyingCloud:
		return 3
	case v1alpha1.RemovalFinalizing:
		return 4
	case v1alpha1.RemovalGone:
		return 5
	case v1alpha1.RemovalHeld:
		return 0
	}
	return 0
}

// upTo returns the phase as it is, but not before Pacing, since a removal that
// is looked at is not held, and not past last.
func upTo(phase, last v1alpha1.RemovalPhase) v1alpha1.RemovalPhase {
	switch {
	case rank(phase) < rank(v1alpha1.RemovalPacing):
		return v1alpha1.RemovalPacing
	case rank(phase) > rank(last):
		return last
	}
	return phase
}

// pastPacing says that the removal has ended NodeClaims, or may have, or is over.
func pastPacing(r v1alpha1.Removal) bool { return rank(r.Phase) > rank(v1alpha1.RemovalPacing) }

// Deleted is a removal whose object was deleted just now.
func Deleted(r v1alpha1.Removal, now time.Time, stallAfter time.Duration) v1alpha1.Removal {
	return Observation{}.terminating().kept(r, now, stallAfter)
}
