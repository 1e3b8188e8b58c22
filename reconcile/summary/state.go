package summary

import (
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/brake"
	"github.com/plumbline-dev/plumbline/render"
)

// State is how a NodeSync is, in a person's words.
type State string

// The states, in the order in which they are looked for.
const (
	Deleted   State = "being deleted"
	Suspended State = "suspended"
	Drained   State = "drained"
	Unseen    State = "not looked at yet"
	Unknown   State = "unknown"
	Stuck     State = "termination stalled"
	InSync    State = "in sync"
	// RollingOut, RolloutHeld, RolloutStopped and RolloutFailing are those of a NodeSync whose definitions are applied
	// and whose nodes do not match them yet.
	RollingOut     State = "rolling out"
	RolloutHeld    State = "rollout held"
	RolloutStopped State = "rollout stopped"
	RolloutFailing State = "rollout failing"
	Held           State = "held by the guard"
	Stalled        State = "stalled"
	Drifted        State = "drifted"
	Failed         State = "failed"
	Retrying       State = "failed, tried again"
	Removing       State = "removing"
	Waiting        State = "waiting"
)

// StateOf reads the conditions.
func StateOf(sync *v1alpha1.NodeSync) State {
	reason := conditions.GetReason(sync, meta.ReadyCondition)
	switch {
	case !sync.DeletionTimestamp.IsZero():
		return Deleted
	case sync.Spec.Suspend:
		return Suspended
	case unwritten(sync) != "":
		return Unknown
	case !conditions.Has(sync, meta.ReadyCondition), sync.Status.ObservedGeneration < sync.Generation:
		return Unseen
	case conditions.IsReady(sync):
		return readyState(sync, reason)
	case conditions.IsStalled(sync):
		return stuckState(reason)
	case reason == v1alpha1.ReasonClassTerminating:
		return Failed // trying again changes nothing
	case conditions.IsFalse(sync, meta.ReadyCondition):
		return Retrying
	case rolloutFails(stateOfNodes(sync)):
		return stateOfNodes(sync)
	case reason == v1alpha1.ReasonRemoving:
		return Removing
	}
	return Waiting
}

// readyState is the state of a NodeSync that is Ready.
func readyState(sync *v1alpha1.NodeSync, reason string) State {
	switch {
	case reason == v1alpha1.ReasonDrained:
		return Drained
	case WhyUnknown(sync) != "":
		return Unknown
	case conditions.IsTrue(sync, v1alpha1.TerminationStalledCondition):
		return Stuck
	}
	return stateOfNodes(sync)
}

// stateOfNodes is the state of a NodeSync whose definitions are applied: InSync if each node matches them. It is the
// one place where RolledOut becomes a state.
func stateOfNodes(sync *v1alpha1.NodeSync) State {
	if !conditions.IsFalse(sync, v1alpha1.RolledOutCondition) {
		return InSync
	}
	switch conditions.GetReason(sync, v1alpha1.RolledOutCondition) {
	case v1alpha1.ReasonRolloutBraked:
		if brake.OnlyHeld(sync.Status.PoolRollouts) {
			return RolloutHeld
		}
		return RolloutStopped
	case v1alpha1.ReasonRolloutFailing, v1alpha1.ReasonRolloutTimedOut:
		return RolloutFailing
	}
	return RollingOut
}

// rolloutFails reports whether a state is one in which the commit status fails because of the nodes.
func rolloutFails(s State) bool {
	return s == RolloutHeld || s == RolloutStopped || s == RolloutFailing
}

// OfNodes reports whether a state is one of the nodes: the definitions are applied.
func (s State) OfNodes() bool { return s == RollingOut || rolloutFails(s) }

// unwritten says why the status, whatever it says, is that of an earlier pass; empty where
// the daemon could write it.
func unwritten(sync *v1alpha1.NodeSync) string {
	return OneLine(sync.Annotations[v1alpha1.StatusNotWrittenAnnotation])
}

// WhyUnknown says why a Ready that is True does not speak of the newest commit: a status
// that could not be written stays as it was. Empty where it does.
func WhyUnknown(sync *v1alpha1.NodeSync) string {
	s := sync.Status
	switch {
	case unwritten(sync) != "":
		return unwritten(sync)
	case requestPending(sync):
		return "the reconciliation that was requested has not been handled"
	case s.LastAttemptedRevision == "":
		return "the status names no commit"
	case s.LastAttemptedRevision != s.LastAppliedRevision:
		return fmt.Sprintf("%s was attempted, and %s is applied", render.ShortRevision(s.LastAttemptedRevision), OrNone(render.ShortRevision(s.LastAppliedRevision)))
	}
	return ""
}

// AwaitsRequest reports whether a NodeSync is Unknown only because the daemon has not handled a request yet.
func AwaitsRequest(sync *v1alpha1.NodeSync) bool {
	return StateOf(sync) == Unknown && unwritten(sync) == "" && requestPending(sync)
}

// requestPending reports whether the daemon has not handled the newest request yet.
func requestPending(sync *v1alpha1.NodeSync) bool {
	requested, asked := meta.ReconcileAnnotationValue(sync.Annotations)
	return asked && requested != sync.Status.LastHandledReconcileAt
}

// Since is since when it has been so; nil where the conditions do not tell.
func Since(sync *v1alpha1.NodeSync) *metav1.Time {
	switch StateOf(sync) {
	case Deleted:
		return sync.DeletionTimestamp
	case Suspended, Unseen, Unknown:
		return nil
	case RollingOut, RolloutHeld, RolloutStopped, RolloutFailing:
		if r := sync.Status.Rollout; r != nil {
			return &r.Since
		}
		return conditions.GetLastTransitionTime(sync, v1alpha1.RolledOutCondition)
	case Stuck:
		return conditions.GetLastTransitionTime(sync, v1alpha1.TerminationStalledCondition)
	default:
		return conditions.GetLastTransitionTime(sync, meta.ReadyCondition)
	}
}

// stuckState is what waits for a person.
func stuckState(reason string) State {
	switch reason {
	case v1alpha1.ReasonHeld:
		return Held
	case v1alpha1.ReasonStalled:
		return Stalled
	case v1alpha1.ReasonDrifted:
		return Drifted
	}
	return Failed
}
