package removal

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// A removal in progress has one of these reasons. A held removal has the guard's reason.
const (
	ReasonRecording          = "Recording"
	ReasonGrace              = v1alpha1.ReasonGrace
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

// Next advances one removal as far as the observation allows. It returns the removal to write, and the actions to take in
// this order. If the actions include a question (AskEC2, Reread), answer it and call Next again with the same removal: the
// other actions remain valid, and more may follow. Next only compares now with other times, and writes it if something
// changed.
func Next(r v1alpha1.Removal, o Observation, now time.Time, stallAfter time.Duration) (v1alpha1.Removal, []Action) {
	var s step
	switch r.Kind {
	case render.EC2NodeClass:
		s = first(r, o, now, held, recording, awaitDeletion, pauseForOtherNodeSync, leaving, referenced, classGates, awaitLeader, deleting)
	case render.NodeOverlay, render.CapacityBuffer: // they own no nodes, so there is nothing to pace
		s = first(r, o, now, held, recording, awaitDeletion, pauseForOtherNodeSync, leaving, deletionGates, deleting)
	default:
		s = first(r, o, now, held, recording, awaitDeletion, pauseForOtherNodeSync, checkGates, growing, draining, scaling, skipWhileDrained,
			verifying, keepPool, deleting)
	}
	return s.kept(r, now, stallAfter), s.actions
}

// check is one reason that stops a removal for now. It returns the step at which the removal stops, or pass if the reason
// does not apply.
type check func(r v1alpha1.Removal, o Observation, now time.Time) (s step, pass bool)

// first returns the step of the first check that stops the removal. The last check always stops it.
func first(r v1alpha1.Removal, o Observation, now time.Time, checks ...check) step {
	for _, look := range checks {
		if s, pass := look(r, o, now); !pass {
			return s.withNotes(o)
		}
	}
	return step{phase: r.Phase, reason: r.Reason, message: r.Message, remaining: unknown}
}

// step is the result of one evaluation of a removal.
type step struct {
	phase           v1alpha1.RemovalPhase
	reason, message string
	// reasons are all reasons to hold the removal, if there is more than one.
	reasons []string
	// remaining is the number of objects that are left; unknown keeps the previous number.
	remaining int
	actions   []Action
	// moves reports whether the actions terminate something.
	moves bool
}

const unknown = -1

// kept writes a step into the removal. It does not touch fields that did not change, so that an idle removal is never
// written.
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
	progress = progress || waitsByReason(r.Reason) && !waitsByReason(s.reason)
	r.Reason, r.Reasons, r.Message = s.reason, s.reasons, s.message
	r = withoutFutureTimes(r, at)
	switch {
	case s.phase == v1alpha1.RemovalHeld, s.phase == v1alpha1.RemovalGone, waitsByReason(s.reason):
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

// waitsByReason reports whether a removal with this reason waits for its time or its turn, or for a person to release
// it or to let the pool grow again. Such a wait is not a stall.
func waitsByReason(reason string) bool {
	return slices.Contains([]string{
		ReasonGrace, ReasonQueued, ReasonTurnPending, ReasonRecordFull, ReasonFrozen, ReasonDrained, ReasonNodePoolHeld,
	}, reason)
}

// withoutFutureTimes sets times in the future, which exist after the clock was set back, to now. Otherwise the removal
// would not count as stalled until then, and its grace period would last that long.
func withoutFutureTimes(r v1alpha1.Removal, now metav1.Time) v1alpha1.Removal {
	if r.RecordedAt.After(now.Time) {
		r.RecordedAt = now
	}
	if r.LastProgress.After(now.Time) {
		r.LastProgress = now
	}
	return r
}

// rank returns the position of a phase in their order. Only a step forward is progress.
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

// limitPhase returns the phase, limited to the range from Pacing to last. Pacing is the minimum because a removal that
// gets this far is not held.
func limitPhase(phase, last v1alpha1.RemovalPhase) v1alpha1.RemovalPhase {
	switch {
	case rank(phase) < rank(v1alpha1.RemovalPacing):
		return v1alpha1.RemovalPacing
	case rank(phase) > rank(last):
		return last
	}
	return phase
}

// pastPacing reports whether the removal has terminated NodeClaims, or may have, or is complete.
func pastPacing(r v1alpha1.Removal) bool { return rank(r.Phase) > rank(v1alpha1.RemovalPacing) }

// Deleted returns the removal after its object was deleted just now.
func Deleted(r v1alpha1.Removal, now time.Time, stallAfter time.Duration) v1alpha1.Removal {
	return Observation{}.terminating().kept(r, now, stallAfter)
}

// decide calls Next for every removal, and repeats this while Next has questions that can be answered. Each question is
// answered once in a reconcile.
func (d *drive) decide(ctx context.Context) (map[*item]v1alpha1.Removal, error) {
	for {
		next := d.nextSteps()
		reread := d.stale()
		first := slices.ContainsFunc(d.open(), func(it *item) bool { return firstQuestion(next[it]) })
		ask := d.mayAsk(first) && slices.ContainsFunc(d.open(), func(it *item) bool {
			return asksFor[AskEC2](it) && it.seen.EC2 == nil && it.seen.NoResponse == ""
		})
		if ask {
			d.queryEC2(ctx)
		}
		if err := d.observe(ctx, reread, d.Live); err != nil {
			return nil, err
		}
		for _, it := range reread {
			it.seen.Fresh = true
		}
		answered, err := d.answer(ctx)
		if err != nil {
			return nil, err
		}
		if !ask && !answered && len(reread) == 0 {
			return next, nil
		}
	}
}

// stale returns the removals to read past the cache: those that request it and, if the next NodeClaim of a pool is about to be
// terminated, all pools. The limit on terminations applies to all pools together, and the cache may not show yet what an
// earlier reconcile has terminated in another pool.
func (d *drive) stale() []*item {
	open := d.open()
	ends := !d.Pace.All && slices.ContainsFunc(open, func(it *item) bool { return it.terminatingNow() > 0 })
	return slices.DeleteFunc(open, func(it *item) bool {
		return it.seen.Fresh || !asksFor[Reread](it) && (!ends || it.before.Kind != render.NodePool)
	})
}

// nextSteps calls Next for every removal. What older removals terminate counts against the turn of those after them.
func (d *drive) nextSteps() map[*item]v1alpha1.Removal {
	open := d.open()
	shares := make([]share, len(open))
	for i, it := range open {
		shares[i] = it.share(d.records.entries[it.before.UID])
	}
	shares = append(shares, d.undrivenShares(open)...)
	next := map[*item]v1alpha1.Removal{}
	room := d.records.space()
	for i, it := range open {
		it.seen.Turn = d.Pace.turn(shares, i)
		it.seen.Full = room.blockedBy(it)
		next[it], it.actions = Next(it.before, it.seen, d.Now, d.StallAfter)
		room.subtract(it, next[it])
		shares[i].leaving += it.terminatingNow()
		shares[i].waits = next[it].Reason == ReasonTurnPending
		for _, a := range it.actions {
			if r, is := a.(Replace); is { // until the budget is lowered, the old number may still apply
				shares[i].granted = max(shares[i].granted, min(r.Nodes-it.seen.disrupting(), shares[i].left))
			}
		}
	}
	return next
}

// answer answers the questions that Next has before it terminates NodeClaims.
func (d *drive) answer(ctx context.Context) (answered bool, err error) {
	for _, it := range d.open() {
		for _, a := range it.actions {
			switch a := a.(type) {
			case ReadPods:
				if it.seen.Pods, err = d.pods.readPods(ctx, a.Nodes, d.ownOf(it), append(d.records.workloads(), d.evictedOf()...)); err != nil {
					return false, err
				}
				if it.seen.Pods.Waiting == "" {
					if it.seen.Pods.Waiting, err = d.awaitLeft(ctx); err != nil {
						return false, err
					}
				}
				answered = true
			case AskLeader:
				it.seen.Leader, answered = d.leaderGateOnce(ctx), true
			}
		}
	}
	return answered, nil
}

func asksFor[A Action](it *item) bool {
	for _, a := range it.actions {
		if _, ok := a.(A); ok {
			return true
		}
	}
	return false
}

// leaderGateOnce returns the result of Leader, which is called once in a reconcile.
func (d *drive) leaderGateOnce(ctx context.Context) *Gate {
	if d.leader == nil {
		leads := d.Leader(ctx)
		d.leader = &leads
	}
	return d.leader
}

// held stops the removal of an object that needs an approval. If the object is gone and its NodeClaims are being deleted,
// there is nothing left to hold.
func held(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if o.Hold == nil || !o.Exists && len(o.undeleted()) == 0 {
		return step{}, true
	}
	s := step{
		phase: v1alpha1.RemovalHeld, reason: o.Hold.Reason, reasons: o.Hold.Reasons, message: o.Hold.Message, remaining: len(o.NodeClaims),
	}
	if o.isRestricted() || o.alive() && o.Scaled { // growth was stopped before the removal was held
		s.actions = []Action{RestoreGrowth{Paced: o.drifting(r)}}
		if !o.Recorded { // another client has deleted the record: write it again first
			s.actions = []Action{Note{}}
		}
	}
	return s, false
}

// recording writes the record of the removal, and does nothing else in this reconcile.
func recording(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if o.Recorded {
		return step{}, true
	}
	return step{
		phase:     limitPhase(r.Phase, v1alpha1.RemovalFinalizing),
		reason:    ReasonRecording,
		message:   "recorded, waiting to start",
		remaining: unknown,
		actions:   []Action{Note{}},
	}, false
}

// awaitDeletion waits until the object is gone, after EC2 was queried and the object deleted.
func awaitDeletion(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
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

// deleting deletes an object that owns nothing any more, in the version that was just read past the cache.
func deleting(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	switch {
	case !o.Exists:
		return gone(o), false
	case o.Terminating && o.Fresh:
		return o.terminating(), false
	}
	s := step{phase: limitPhase(r.Phase, v1alpha1.RemovalVerifyingCloud), reason: ReasonDeleting, message: ownsNothing, remaining: 0}
	if r.Kind == render.NodeOverlay || r.Kind == render.CapacityBuffer {
		s.message = "deleting"
	}
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

const ownsNothing = "no longer referenced"

// gone completes a removal whose object does not exist; it reads past the cache first.
func gone(o Observation) step {
	if !o.Fresh {
		s := o.terminating()
		s.actions = []Action{Reread{}}
		return s
	}
	return step{phase: v1alpha1.RemovalGone, actions: []Action{Forget{}}}
}

// terminating returns the step that waits for the finalizers of a deleted object.
func (o Observation) terminating() step {
	s := step{phase: v1alpha1.RemovalFinalizing, reason: ReasonTerminating, message: "terminating", remaining: 0}
	switch {
	case len(o.ReferencedBy) > 0:
		s.message = "terminating, but still referenced by " + finding.First(o.ReferencedBy)
	case len(o.Finalizers) > 0:
		s.message = "terminating; waiting for " + blocker.WaitsForFinalizers(o.Finalizers)
	}
	return s
}

// gate is a Gate with the reason that the removal has while the gate is closed.
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

// closed returns a step that waits for the first closed gate.
func closed(phase v1alpha1.RemovalPhase, remaining int, gates ...gate) (step, bool) {
	for _, g := range gates {
		if !g.Open {
			return step{phase: phase, reason: g.reason, message: g.Message, remaining: remaining}, false
		}
	}
	return step{}, true
}

// withNotes adds to a step what is missing in the record.
func (s step) withNotes(o Observation) step {
	fresh, seen := o.missingInRecord()
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

// pauseForOtherNodeSync pauses the removal of an object that moves to another NodeSync, or has moved there since the
// Plan was made. This NodeSync terminates and changes nothing more of it.
func pauseForOtherNodeSync(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if o.NewOwner == "" || !o.alive() {
		return step{}, true
	}
	s := step{
		phase: limitPhase(r.Phase, v1alpha1.RemovalDraining), reason: ReasonOtherNodeSync,
		message: "NodeSync " + o.NewOwner + " has it in Git: it is handed over, and no more of its nodes are terminated", remaining: unknown,
	}
	return s.revokeReplacements(o), false
}

// looksAtOnce is the number of NodeClaims of a pool among which a reconcile looks for nodes without pods. Each takes one
// LIST.
const looksAtOnce = 50

// next returns the NodeClaims whose turn it is; those whose termination moves no pod come first. For a static pool it may be
// any: Karpenter chooses, and takes empty nodes first as well (resolvedDeprovisioningCandidates in
// sigs.k8s.io/karpenter pkg/controllers/static/deprovisioning/controller.go).
func (o Observation) next(left []Claim) []Claim {
	sorted := o.emptyFirst(left)
	if o.karpenterChooses() {
		return sorted[:min(maxTerminatedAtOnce, len(sorted))]
	}
	return sorted[:min(o.Turn.Terminations, len(sorted))]
}

// podsToRead returns the NodeClaims whose pods are read first. If not all NodeClaims are terminated, they are more than
// those whose turn it is, because others may have no pods.
func (o Observation) podsToRead(left []Claim) []Claim {
	next := o.next(left)
	if o.karpenterChooses() || len(next) == 0 || len(next) == len(left) || next[len(next)-1].Node == "" {
		return next
	}
	return o.emptyFirst(left)[:min(len(left), max(looksAtOnce, len(next)))]
}

func (o Observation) karpenterChooses() bool { return o.alive() && o.Static && o.Replicas > 0 }

// emptyFirst sorts NodeClaims: first those without a node, which have no pods, then those whose node is known to have no pod
// that would be evicted.
func (o Observation) emptyFirst(claims []Claim) []Claim {
	rank := func(c Claim) int {
		switch {
		case c.Node == "":
			return 0
		case o.Pods != nil && o.Pods.Empty[c.Node]:
			return 1
		}
		return 2
	}
	sorted := slices.Clone(claims)
	slices.SortStableFunc(sorted, func(a, b Claim) int { return rank(a) - rank(b) })
	return sorted
}

// evictedFrom returns the workloads that the record does not contain and whose pods are evicted when NodeClaims are terminated.
func (o Observation) evictedFrom(claims []Claim) []Workload {
	if o.Pods == nil || !o.Turn.AwaitPods {
		return nil
	}
	nodes := nodesOf(claims)
	return slices.DeleteFunc(slices.Clone(o.Pods.Workloads), func(w Workload) bool {
		on := o.Pods.On[w.UID]
		return len(on) > 0 && !slices.ContainsFunc(on, func(node string) bool { return slices.Contains(nodes, node) })
	})
}
