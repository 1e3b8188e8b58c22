package removal

import (
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// checkGates prevents a removal from starting, and from terminating more NodeClaims, while a gate is closed. The pool
// may grow as before while the removal has not started, while no other pool could take the pods, and while it waits for
// a window: a removal that cannot proceed takes nothing away.
func checkGates(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	s, open := closed(limitPhase(r.Phase, v1alpha1.RemovalDraining), len(o.NodeClaims), o.gates(r)...)
	if open {
		return step{}, true
	}
	switch back := !pastPacing(r) || !o.Successor.Open || !o.window().Open; {
	case o.isRestricted() && back:
		s.actions = []Action{RestoreGrowth{Paced: o.drifting(r)}}
	case o.alive():
		s = s.revokeReplacements(o)
	}
	if s.reason == ReasonFrozen && len(o.undeleted()) < len(o.NodeClaims) {
		s.reason, s.message = ReasonNodeClaimsLeaving, "its deleted NodeClaims are being drained and terminated; "+s.message
	}
	return s.queryRecorded(o), false
}

// gates returns the gates that must be open for the next step of a pool's removal. NodeClaims that are already deleted
// need none.
func (o Observation) gates(r v1alpha1.Removal) []gate {
	left, begins := len(o.undeleted()) > 0, !pastPacing(r)
	if !left && (!begins || !o.alive()) {
		return nil
	}
	var gates []gate
	if begins {
		gates = append(gates, o.queue())
	}
	if left {
		gates = append(gates, o.controller())
	}
	if left || begins {
		gates = append(gates, o.cloud())
	}
	if begins {
		gates = append(gates, o.arrivals())
	}
	if left {
		gates = append(gates, o.successor())
	}
	if begins {
		gates = append(gates, o.grace())
	}
	return append(gates, o.window())
}

// alive reports whether the pool exists and is not terminating.
func (o Observation) alive() bool { return o.Exists && !o.Terminating }

// isRestricted reports whether the removal has restricted a pool that stays for now.
func (o Observation) isRestricted() bool {
	return o.alive() && (o.GrowthWithheld || o.Replacing != nil || o.Paced)
}

// growing stops a pool from launching nodes once nothing prevents their termination, and again if another client has
// undone it.
func growing(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	another := o.Replacing != nil && !o.replaces() // the nodes are now removed in another way
	if !o.alive() || o.GrowthStopped && !another || o.Static {
		return step{}, true
	}
	s := step{
		phase: limitPhase(r.Phase, v1alpha1.RemovalVerifyingCloud), reason: ReasonStoppingGrowth,
		message: "its growth is stopped", remaining: unknown, actions: []Action{StopGrowth{}},
	}
	if rank(s.phase) <= rank(v1alpha1.RemovalDraining) {
		s.remaining = len(o.NodeClaims)
	}
	return s, false
}

// draining terminates the pool's NodeClaims, as many as its turn allows. Their deletion cannot be reverted, so it needs
// every gate open, the providerIDs recorded and a read past the cache.
func draining(r v1alpha1.Removal, o Observation, now time.Time) (step, bool) {
	if len(o.NodeClaims) == 0 {
		return step{}, true
	}
	left := o.undeleted()
	s := step{
		phase: limitPhase(r.Phase, v1alpha1.RemovalDraining), reason: ReasonNodeClaimsLeaving, message: o.Turn.message(),
		remaining: len(o.NodeClaims),
	}
	if first := o.terminatedFirst(); first != "" {
		s.message += "; " + first
	}
	if len(left) < len(o.NodeClaims) || o.Replacing != nil {
		s.phase = v1alpha1.RemovalDraining
	}
	fresh, _ := o.missingInRecord()
	switch {
	case o.passedOver(left):
		s.message = "waiting for Karpenter to terminate the nodes beyond spec.replicas: it terminates none while its feature gate StaticCapacity is off"
	case len(left) == 0, len(fresh) > 0:
	case o.replaces():
		s = s.replaceNodes(r, o, now)
	case o.Turn.Terminations > 0:
		s = s.terminateNext(o, left)
	case o.Turn.Behind != "":
		s.reason, s.message = ReasonTurnPending, "waiting for the NodeClaims of "+o.Turn.Behind+": removal.maxUnavailable is shared by all removals"
	}
	return s.queryRecorded(o), false
}

// passedOver reports whether a static pool should have fewer nodes than it has, and Karpenter has not chosen any to
// terminate.
func (o Observation) passedOver(left []Claim) bool {
	return o.alive() && o.Static && o.Replicas > 0 && o.Replicas < len(left) && len(left) == len(o.NodeClaims) && o.Turn.Terminations == 0
}

// terminateNext terminates the next NodeClaims. It first notes the controllers of the pods on their nodes, so that it
// is known whose pods must run again before the next ones.
func (s step) terminateNext(o Observation, left []Claim) step {
	next := o.next(left)
	fits, lacks := o.fitting(next)
	switch {
	case !o.Fresh:
		s.actions = []Action{Reread{}}
	case o.Pods == nil && (o.Turn.AwaitPods || len(o.podsToRead(left)) > len(next)):
		s.actions = []Action{ReadPods{Nodes: nodesOf(o.podsToRead(left))}}
	case o.Pods != nil && o.Turn.AwaitPods && o.Pods.Waiting != "":
		s.reason, s.message = ReasonPodsPending, o.Pods.Waiting
	case fits == 0 && len(next) > 0:
		s.reason, s.message = ReasonSuccessorMissing, insufficientFor(next[0], lacks, o)
	case o.Leader == nil:
		s.actions = []Action{AskLeader{}}
	case !o.Leader.Open:
		s.reason, s.message = ReasonControllerNotReady, o.Leader.Message
	default:
		s.phase = v1alpha1.RemovalDraining
		if workloads := o.evictedFrom(next); len(workloads) > 0 {
			s.actions = []Action{Note{Workloads: workloads}}
		}
		if fits < len(next) {
			o.Turn.Terminations = min(o.Turn.Terminations, fits)
		}
		ends := o.terminations(next[:fits], len(left))
		s.actions, s.moves = append(s.actions, ends...), len(ends) > 0
	}
	return s
}

// terminations returns the actions that terminate NodeClaims. While a static pool keeps some nodes, Karpenter chooses
// which ones it loses: it would replace a NodeClaim that was deleted.
func (o Observation) terminations(next []Claim, left int) []Action {
	if o.alive() && o.Static && o.Replicas > 0 {
		if to := max(0, left-o.Turn.Terminations); to < o.Replicas {
			return []Action{ScaleTo{Replicas: to}}
		}
		return nil
	}
	actions := make([]Action, 0, len(next))
	for _, c := range next {
		actions = append(actions, DeleteNodeClaim{Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion})
	}
	return actions
}

func nodesOf(claims []Claim) []string {
	var nodes []string
	for _, c := range claims {
		if c.Node != "" {
			nodes = append(nodes, c.Node)
		}
	}
	return nodes
}

// scaling stops a static pool that currently has no nodes.
func scaling(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if !o.alive() || !o.Static || o.GrowthStopped {
		return step{}, true
	}
	return step{
		phase: limitPhase(r.Phase, v1alpha1.RemovalDraining), reason: ReasonStoppingGrowth,
		message: "its growth is stopped", remaining: 0, actions: []Action{ScaleTo{}},
	}, false
}

// verifying queries EC2, and relies on it only if the account is known to be right: another account has none of the
// instances. Draining is complete by then, whether EC2 can be queried or not.
func verifying(r v1alpha1.Removal, o Observation, now time.Time) (step, bool) {
	phase := limitPhase(r.Phase, v1alpha1.RemovalVerifyingCloud)
	if pastPacing(r) {
		phase = v1alpha1.RemovalVerifyingCloud
	}
	if s, open := closed(phase, unknown, o.cloud()); !open {
		return s, false
	}
	s := step{phase: v1alpha1.RemovalVerifyingCloud, remaining: unknown}
	switch left := o.notTerminated(now); {
	case o.NoResponse != "":
		s.reason, s.message = o.unanswered(r)
	case o.EC2 == nil:
		s.reason, s.message = ReasonAskingEC2, "verifying in EC2 that all instances are terminated"+o.recorded()
		if r.Reason == ReasonInstancesLeaving || r.Reason == ReasonEC2NotAnswering || r.Reason == ReasonUnverifiable {
			// The last response remains until the next one: it may be too early for a query.
			s.reason, s.message = r.Reason, r.Message
		}
		s.actions = []Action{AskEC2{}}
	case len(left) > 0 && len(left) == len(o.Unaskable):
		s.reason, s.remaining = ReasonUnverifiable, len(left)
		s.message = finding.First(o.Unaskable) + ": not an EC2 instance, so EC2 cannot report whether it is terminated: check that it is, then delete it from the removal's record in ConfigMap plumbline-<name of the NodeSync>"
	case len(left) > 0:
		s.reason, s.message, s.remaining = ReasonInstancesLeaving, "EC2 has not terminated all instances yet: "+describe(left), len(left)
	default:
		return step{}, true
	}
	return s, false
}

// queryRecorded queries EC2 for the recorded instances while they run, so that one that is absent later is known to
// have existed.
func (s step) queryRecorded(o Observation) step {
	if o.EC2 == nil && o.NoResponse == "" && o.Cloud.Open && o.hasUnseenInstance() {
		s.actions = append([]Action{AskEC2{}}, s.actions...)
	}
	return s
}

// undeleted returns the NodeClaims that are not deleted yet.
func (o Observation) undeleted() []Claim {
	var left []Claim
	for _, c := range o.NodeClaims {
		if c.Deleting.IsZero() {
			left = append(left, c)
		}
	}
	return left
}
