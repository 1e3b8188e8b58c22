package summary

import (
	"fmt"
	"slices"

	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Next describes what happens next, by itself or by a person.
func Next(sync *v1alpha1.NodeSync) string {
	name := sync.Name
	switch StateOf(sync) {
	case Deleted:
		return nextOfDeletion(sync)
	case Suspended:
		return fmt.Sprintf("nothing, until `plumbline resume %s -n %s`", name, sync.Namespace)
	case Drained:
		return fmt.Sprintf("no node starts, until `plumbline resume %s -n %s`", name, sync.Namespace)
	case Unseen:
		return "the daemon reconciles it; if nothing changes, check that the daemon runs: kubectl get pods -n " + sync.Namespace
	case Unknown:
		return WhyUnknown(sync) + ": see whether the daemon runs, and what it logs: kubectl get pods -n " + sync.Namespace
	case InSync:
		return fmt.Sprintf("fetches every %s, and when a webhook reports a push; edits by hand are %s", interval(sync), atDrift(sync))
	case RollingOut, RolloutHeld, RolloutStopped, RolloutFailing, LaunchFailing:
		return nextOfRollout(sync)
	case Stuck:
		return "the termination continues by itself once what it waits for is gone; plumbline never forces it"
	case Held:
		return nextOfHold(sync)
	case Stalled:
		return "continues by itself once the cause in the message is removed; nothing is forced"
	case Drifted:
		return "nothing is written while spec.drift is Report: revert the edits, or set spec.drift to Correct"
	case Failed, Retrying:
		return nextOfFailure(sync)
	case Removing:
		return nextOfRemoval(sync)
	case Waiting:
	}
	return "continues by itself when the wait is over"
}

// nextOfFailure describes what happens after a failure: whether a retry helps.
func nextOfFailure(sync *v1alpha1.NodeSync) string {
	if StateOf(sync) == Retrying {
		return fmt.Sprintf("tries again every %s", retryInterval(sync))
	}
	return fmt.Sprintf("push a commit, or change the NodeSync or the cluster, that corrects it; looked at again every %s", interval(sync))
}

// nextOfHold describes what a person does about what is held.
func nextOfHold(sync *v1alpha1.NodeSync) string {
	if sync.Status.Held != nil {
		return "what is held waits until you approve it as the message says, or revert the commit"
	}
	return "what is held waits until you revert the commit, raise the limit in spec.guard, or release it as the message says"
}

// nextOfRollout describes what happens next to nodes that are not replaced yet.
func nextOfRollout(sync *v1alpha1.NodeSync) string {
	missing := len(missingNodes(sync)) > 0 && !conditions.IsFalse(sync, v1alpha1.RolledOutCondition)
	lost := func(l v1alpha1.LaunchFailure) bool { return l.Lost }
	switch state := StateOf(sync); {
	case missing && slices.ContainsFunc(sync.Status.LaunchFailing, lost):
		return "Karpenter launches no other node until you have done what the message says"
	case missing:
		return "Karpenter tries again; what keeps it from launching nodes is in the message"
	case state == RolloutHeld:
		return "continues by itself when what holds the rollout is over"
	case state == RolloutStopped:
		return fmt.Sprintf("no node is replaced until you revert or correct the definition, or `plumbline resume-rollout %s -n %s`",
			sync.Name, sync.Namespace)
	case state == RolloutFailing:
		return "Karpenter continues to replace nodes; what is wrong is in the message"
	default:
		return "Karpenter replaces the other nodes at the pace of their disruption budgets"
	}
}

// nextOfDeletion describes what a deletion does before the NodeSync is gone.
func nextOfDeletion(sync *v1alpha1.NodeSync) string {
	if sync.Spec.OnDelete == v1alpha1.OnDeleteDrain {
		return "removes every pool, verifies in EC2 that no instance is left, and then deletes the NodeSync (onDelete: Drain)"
	}
	return "removes plumbline's label from the objects, keeps the nodes, and deletes the NodeSync (onDelete: Orphan)"
}

// nextOfRemoval describes what ends the phase of the first removal in progress.
func nextOfRemoval(sync *v1alpha1.NodeSync) string {
	for _, r := range sync.Status.Removals {
		of := r.Kind + "/" + r.Name
		if r.Returned() {
			return "reverts the removal of " + of + " once its change in Git is applied"
		}
		if r.Kind == render.EC2NodeClass && r.Phase != v1alpha1.RemovalHeld && r.Phase != v1alpha1.RemovalGone {
			return "deletes " + of + " once no NodePool and no NodeClaim names it"
		}
		if r.Queued() {
			return "starts the removal of " + of + " once the removals that it waits for are complete"
		}
		if r.Reason == plan.ReasonFrozen && r.Kind != render.NodePool {
			return "deletes " + of + " when spec.guard allows it: `plumbline calendar` lists when"
		}
		if r.Reason == plan.ReasonFrozen {
			return "terminates the NodeClaims of " + of + " when spec.guard allows it: `plumbline calendar` lists when"
		}
		switch {
		case r.Drained():
			continue
		case sync.KeepsDefinitions() && r.Phase == v1alpha1.RemovalVerifyingCloud:
			return "keeps " + of + " without nodes once EC2 reports that every instance is terminated"
		}
		if next := nextOfPhase(&r); next != "" {
			return next
		}
	}
	return "continues by itself"
}

// nextOfPhase describes what ends the phase of a removal; empty if it is not in progress.
func nextOfPhase(r *v1alpha1.Removal) string {
	of := r.Kind + "/" + r.Name
	switch r.Phase {
	case v1alpha1.RemovalPacing:
		if r.Kind != render.NodePool {
			return "deletes " + of + " once removal.grace is over and everything that the commit adds is applied"
		}
		return "terminates the NodeClaims of " + of + " once everything that the commit adds is Ready, Karpenter runs and EC2 answers"
	case v1alpha1.RemovalDraining:
		return "queries EC2 for the instances of " + of + " once its nodes are drained"
	case v1alpha1.RemovalVerifyingCloud:
		return "deletes " + of + " once EC2 reports that every instance is terminated"
	case v1alpha1.RemovalFinalizing:
		return "completes once the object " + of + " is gone"
	case v1alpha1.RemovalHeld, v1alpha1.RemovalGone:
	}
	return ""
}

func atDrift(sync *v1alpha1.NodeSync) string {
	if sync.Spec.Drift == v1alpha1.DriftReport {
		return "reported"
	}
	return "reverted at once"
}

func interval(sync *v1alpha1.NodeSync) string { return plan.Short(sync.Spec.Interval.Duration) }

func retryInterval(sync *v1alpha1.NodeSync) string {
	if retry := sync.Spec.RetryInterval; retry != nil {
		return plan.Short(retry.Duration)
	}
	return interval(sync)
}
