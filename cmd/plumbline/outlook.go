package main

import (
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// state is how a NodeSync is, in a person's words.
type state string

// The states, in the order in which they are looked for.
const (
	stateDeleted   state = "being deleted"
	stateSuspended state = "suspended"
	stateUnseen    state = "not looked at yet"
	stateUnknown   state = "unknown"
	stateInSync    state = "in sync"
	stateHeld      state = "held by the guard"
	stateStalled   state = "stalled"
	stateDrifted   state = "drifted"
	stateFailed    state = "failed"
	stateRetrying  state = "failed, tried again"
	stateRemoving  state = "removing"
	stateWaiting   state = "waiting"
)

// stateOf reads the conditions.
func stateOf(sync *v1alpha1.NodeSync) state {
	reason := conditions.GetReason(sync, meta.ReadyCondition)
	switch {
	case !sync.DeletionTimestamp.IsZero():
		return stateDeleted
	case sync.Spec.Suspend:
		return stateSuspended
	case unwritten(sync) != "":
		return stateUnknown
	case !conditions.Has(sync, meta.ReadyCondition), sync.Status.ObservedGeneration < sync.Generation:
		return stateUnseen
	case conditions.IsReady(sync) && unknown(sync) != "":
		return stateUnknown
	case conditions.IsReady(sync):
		return stateInSync
	case conditions.IsStalled(sync):
		return stuckState(reason)
	case reason == v1alpha1.ReasonClassTerminating:
		return stateFailed // trying again changes nothing
	case conditions.IsFalse(sync, meta.ReadyCondition):
		return stateRetrying
	case reason == v1alpha1.ReasonRemoving:
		return stateRemoving
	}
	return stateWaiting
}

// unwritten says why the status, whatever it says, is that of an earlier pass; empty where
// the daemon could write it.
func unwritten(sync *v1alpha1.NodeSync) string {
	return oneLine(sync.Annotations[v1alpha1.StatusNotWrittenAnnotation])
}

// unknown says why a Ready that is True does not speak of the newest commit: a status
// that could not be written stays as it was. Empty where it does.
func unknown(sync *v1alpha1.NodeSync) string {
	s := sync.Status
	requested, asked := meta.ReconcileAnnotationValue(sync.Annotations)
	switch {
	case unwritten(sync) != "":
		return unwritten(sync)
	case asked && requested != s.LastHandledReconcileAt:
		return "the reconciliation that was requested has not been handled"
	case s.LastAttemptedRevision == "":
		return "the status names no commit"
	case s.LastAttemptedRevision != s.LastAppliedRevision:
		return fmt.Sprintf("%s was attempted, and %s is applied", render.ShortRevision(s.LastAttemptedRevision), orNone(render.ShortRevision(s.LastAppliedRevision)))
	}
	return ""
}

// sinceOf is since when it has been so; nil where the conditions do not tell.
func sinceOf(sync *v1alpha1.NodeSync) *metav1.Time {
	switch stateOf(sync) {
	case stateDeleted:
		return sync.DeletionTimestamp
	case stateSuspended, stateUnseen, stateUnknown:
		return nil
	default:
		return conditions.GetLastTransitionTime(sync, meta.ReadyCondition)
	}
}

// stuckState is what waits for a person.
func stuckState(reason string) state {
	switch reason {
	case v1alpha1.ReasonHeld:
		return stateHeld
	case v1alpha1.ReasonStalled:
		return stateStalled
	case v1alpha1.ReasonDrifted:
		return stateDrifted
	}
	return stateFailed
}

// nextOf says what happens next, by itself or by a person's hand.
func nextOf(sync *v1alpha1.NodeSync) string {
	name := sync.Name
	switch stateOf(sync) {
	case stateDeleted:
		return nextOfDeletion(sync)
	case stateSuspended:
		return fmt.Sprintf("nothing, until `plumbline resume %s -n %s`", name, sync.Namespace)
	case stateUnseen:
		return "the daemon looks at it; where nothing comes, see whether it runs: kubectl get pods -n " + sync.Namespace
	case stateUnknown:
		return unknown(sync) + ": see whether the daemon runs, and what it logs: kubectl get pods -n " + sync.Namespace
	case stateInSync:
		return fmt.Sprintf("looks at Git every %s and at a webhook's push; edits by hand are %s", interval(sync), atDrift(sync))
	case stateHeld:
		return "nothing leaves until you revert the commit, raise the limit in spec.guard, or release it as the message says"
	case stateStalled:
		return "continues by itself once what it names is out of the way; nothing is forced"
	case stateDrifted:
		return "nothing is written while spec.drift is Report: put the objects right, or set spec.drift to Correct"
	case stateFailed:
		return fmt.Sprintf("push a commit, or change the NodeSync or the cluster, that puts it right; looked at again every %s", interval(sync))
	case stateRetrying:
		return fmt.Sprintf("tries again every %s", retryInterval(sync))
	case stateRemoving:
		return nextOfRemoval(sync.Status.Removals)
	case stateWaiting:
	}
	return "continues by itself as soon as that is there"
}

// nextOfDeletion says what a deletion does before the NodeSync goes.
func nextOfDeletion(sync *v1alpha1.NodeSync) string {
	if sync.Spec.OnDelete == v1alpha1.OnDeleteDrain {
		return "takes every pool away, verified in EC2, and then goes (onDelete: Drain)"
	}
	return "takes our label off the objects, leaves the nodes, and then goes (onDelete: Orphan)"
}

// nextOfRemoval says what ends the phase of the first removal that is open.
func nextOfRemoval(removals []v1alpha1.Removal) string {
	for _, r := range removals {
		of := r.Kind + "/" + r.Name
		if r.Kind == render.EC2NodeClass && r.Phase != v1alpha1.RemovalHeld && r.Phase != v1alpha1.RemovalGone {
			return "deletes " + of + " once no NodePool and no NodeClaim names it"
		}
		switch r.Phase {
		case v1alpha1.RemovalPacing:
			return "ends the NodeClaims of " + of + " once all arrivals are Ready, the controller runs and EC2 can be asked"
		case v1alpha1.RemovalDraining:
			return "asks EC2 for the instances of " + of + " once its nodes have drained"
		case v1alpha1.RemovalVerifyingCloud:
			return "deletes " + of + " once EC2 says that every instance has ended"
		case v1alpha1.RemovalFinalizing:
			return "is done with " + of + " once the object has vanished"
		case v1alpha1.RemovalHeld, v1alpha1.RemovalGone:
		}
	}
	return "continues by itself"
}

func atDrift(sync *v1alpha1.NodeSync) string {
	if sync.Spec.Drift == v1alpha1.DriftReport {
		return "reported"
	}
	return "reverted at once"
}

func interval(sync *v1alpha1.NodeSync) string { return short(sync.Spec.Interval.Duration) }

func retryInterval(sync *v1alpha1.NodeSync) string {
	if retry := sync.Spec.RetryInterval; retry != nil {
		return short(retry.Duration)
	}
	return interval(sync)
}

// commitOf says which commit counts, in short.
func (r statusReport) commitOf() string {
	text := orNone(render.ShortRevision(r.Applied))
	switch {
	case r.Attempted == "" || r.Attempted == r.Applied:
		return text
	case r.State == string(stateFailed):
		return text + "; refused: " + render.ShortRevision(r.Attempted)
	}
	return text + ", on the way to " + render.ShortRevision(r.Attempted)
}
