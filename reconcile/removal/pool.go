package removal

import (
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// gated keeps a removal from beginning, and from ending more NodeClaims, before a
// gate that is closed. While it has not begun, whenever no other pool could take the
// pods, and while it waits for a window, the pool may grow as before: nothing is taken
// away by a removal that cannot go on.
func gated(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	s, open := closed(upTo(r.Phase, v1alpha1.RemovalDraining), len(o.NodeClaims), o.gates(r)...)
	if open {
		return step{}, true
	}
	switch back := !pastPacing(r) || !o.Successor.Open || !o.window().Open; {
	case o.withholds() && back:
		s.actions = []Action{RestoreGrowth{Paced: o.drifting(r)}}
	case o.alive():
		s = s.recall(o)
	}
	if s.reason == ReasonFrozen && len(o.undeleted()) < len(o.NodeClaims) {
		s.reason, s.message = ReasonNodeClaimsLeaving, "its deleted NodeClaims are being drained and terminated; "+s.message
	}
	return s.asking(o), false
}

// gates are what has to be open for the next step of a pool's removal. What has
// been deleted already needs none.
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

// alive reports whether the pool exists and nobody has deleted it.
func (o Observation) alive() bool { return o.Exists && !o.Terminating }

// withholds reports whether the removal has taken something from a pool that stays for now.
func (o Observation) withholds() bool {
	return o.alive() && (o.GrowthWithheld || o.Replacing != nil || o.Paced)
}

// growing stops a pool from making nodes, once nothing is in the way of ending
// them, and again where another client has undone it.
func growing(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	another := o.Replacing != nil && !o.replaces() // the nodes end in another way now
	if !o.alive() || o.GrowthStopped && !another || o.Static {
		return step{}, true
	}
	s := step{
		phase: upTo(r.Phase, v1alpha1.RemovalVerifyingCloud), reason: ReasonStoppingGrowth,
		message: "its growth is stopped", remaining: unknown, actions: []Action{StopGrowth{}},
	}
	if rank(s.phase) <= rank(v1alpha1.RemovalDraining) {
		s.remaining = len(o.NodeClaims)
	}
	return s, false
}

// draining ends the pool's NodeClaims, as many as it is its turn to. Their
// deletion cannot be taken back, so it wants every gate open, the providerIDs
// recorded and a look past the cache.
func draining(r v1alpha1.Removal, o Observation, now time.Time) (step, bool) {
	if len(o.NodeClaims) == 0 {
		return step{}, true
	}
	left := o.undeleted()
	s := step{phase: upTo(r.Phase, v1alpha1.RemovalDraining), reason: ReasonNodeClaimsLeaving, message: o.Turn.message(), remaining: len(o.NodeClaims)}
	if first := o.first(); first != "" {
		s.message += "; " + first
	}
	if len(left) < len(o.NodeClaims) || o.Replacing != nil {
		s.phase = v1alpha1.RemovalDraining
	}
	fresh, _ := o.news()
	switch {
	case o.passedOver(left):
		s.message = "waiting for Karpenter to terminate the nodes beyond spec.replicas: it terminates none while its feature gate StaticCapacity is off"
	case len(left) == 0, len(fresh) > 0:
	case o.replaces():
		s = s.replace(r, o, now)
	case o.Turn.Ends > 0:
		s = s.ends(o, left)
	case o.Turn.Behind != "":
		s.reason, s.message = ReasonTurnPending, "waiting for the NodeClaims of "+o.Turn.Behind+": removal.maxUnavailable is shared by all removals"
	}
	return s.asking(o), false
}

// passedOver reports whether a static pool is to have fewer nodes than run, and Karpenter has not
// chosen any that goes.
func (o Observation) passedOver(left []Claim) bool {
	return o.alive() && o.Static && o.Replicas > 0 && o.Replicas < len(left) && len(left) == len(o.NodeClaims) && o.Turn.Ends == 0
}

// ends ends the next NodeClaims. Who owns the pods on their nodes is noted before,
// so that it is known whose pods have to run again before the ones after.
func (s step) ends(o Observation, left []Claim) step {
	next := o.next(left)
	fits, lacks := o.fitting(next)
	switch {
	case !o.Fresh:
		s.actions = []Action{Reread{}}
	case o.Pods == nil && (o.Turn.AwaitPods || len(o.looked(left)) > len(next)):
		s.actions = []Action{ReadPods{Nodes: nodesOf(o.looked(left))}}
	case o.Pods != nil && o.Turn.AwaitPods && o.Pods.Waiting != "":
		s.reason, s.message = ReasonPodsPending, o.Pods.Waiting
	case fits == 0 && len(next) > 0:
		s.reason, s.message = ReasonSuccessorMissing, lacking(next[0], lacks, o)
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
			o.Turn.Ends = min(o.Turn.Ends, fits)
		}
		ends := o.endsOf(next[:fits], len(left))
		s.actions, s.moves = append(s.actions, ends...), len(ends) > 0
	}
	return s
}

// endsOf are the actions that end NodeClaims. Which ones a static pool loses is
// Karpenter's choice, as long as it is to keep some: it would replace one that
// was deleted.
func (o Observation) endsOf(next []Claim, left int) []Action {
	if o.alive() && o.Static && o.Replicas > 0 {
		if to := max(0, left-o.Turn.Ends); to < o.Replicas {
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

// scaling stops a static pool that happens to have no node just now.
func scaling(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if !o.alive() || !o.Static || o.GrowthStopped {
		return step{}, true
	}
	return step{
		phase: upTo(r.Phase, v1alpha1.RemovalDraining), reason: ReasonStoppingGrowth,
		message: "its growth is stopped", remaining: 0, actions: []Action{ScaleTo{}},
	}, false
}

// verifying asks EC2, and believes it only where it is known to be the right
// account: a wrong one has none of the instances. What was draining has drained
// by then, whether EC2 can be asked or not.
func verifying(r v1alpha1.Removal, o Observation, now time.Time) (step, bool) {
	phase := upTo(r.Phase, v1alpha1.RemovalVerifyingCloud)
	if pastPacing(r) {
		phase = v1alpha1.RemovalVerifyingCloud
	}
	if s, open := closed(phase, unknown, o.cloud()); !open {
		return s, false
	}
	s := step{phase: v1alpha1.RemovalVerifyingCloud, remaining: unknown}
	switch left := o.unended(now); {
	case o.Silence != "":
		s.reason, s.message = o.unanswered(r)
	case o.EC2 == nil:
		s.reason, s.message = ReasonAskingEC2, "verifying in EC2 that all instances are terminated"+o.recorded()
		if r.Reason == ReasonInstancesLeaving || r.Reason == ReasonEC2NotAnswering || r.Reason == ReasonUnverifiable {
			// The last answer stands until the next one: it may not be time to ask.
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

// asking has EC2 show the instances that are recorded while they live, so that
// one that is absent later is one that was seen.
func (s step) asking(o Observation) step {
	if o.EC2 == nil && o.Silence == "" && o.Cloud.Open && o.unseen() {
		s.actions = append([]Action{AskEC2{}}, s.actions...)
	}
	return s
}

// undeleted returns the NodeClaims that nobody has deleted yet.
func (o Observation) undeleted() []Claim {
	var left []Claim
	for _, c := range o.NodeClaims {
		if c.Deleting.IsZero() {
			left = append(left, c)
		}
	}
	return left
}
