package removal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Run records what was removed from the repository, and takes what an earlier reconcile recorded one step further.
func (s *Step) Run(ctx context.Context) (Result, error) {
	reverted, err := s.endReverted(ctx, s.pace())
	if err != nil {
		return Result{}, err
	}
	if err := s.restore(ctx); err != nil {
		return Result{Writes: reverted}, err
	}
	s.waitForOthers()
	if _, err := s.awaitRelabelled(ctx); err != nil {
		return Result{Writes: reverted}, err
	}
	s.recordCandidates()
	if err := s.orphanEntries(ctx); err != nil {
		return Result{Writes: reverted}, err
	}
	s.limitRecordedAt()
	s.recordRecent()
	result, err := s.drive(ctx, terms{arrivals: s.arrivalsGate(), successor: s.successorGate(), pace: s.pace()})
	result.Writes = append(reverted, result.Writes...)
	return result, err
}

// Drain removes everything that this NodeSync manages, or only the nodes. It was requested explicitly, so no guard
// applies.
func (s *Step) Drain(ctx context.Context) (Result, error) {
	if _, err := s.endReverted(ctx, Pace{All: true}); err != nil {
		return Result{}, err
	}
	s.waitForOthers()
	if _, err := s.awaitRelabelled(ctx); err != nil {
		return Result{}, err
	}
	s.recordCandidates()
	// Everything is removed: there are no additions to wait for, no pool to take the pods, and no reason to wait
	// between two nodes.
	open := func(v1alpha1.Removal) Gate { return Gate{Open: true} }
	return s.drive(ctx, terms{arrivals: open, successor: open, pace: Pace{All: true}})
}

// terms are the conditions under which removals proceed.
type terms struct {
	arrivals, successor func(v1alpha1.Removal) Gate
	pace                Pace
}

// drive takes all removals that Git has not reverted one step further.
func (s *Step) drive(ctx context.Context, on terms) (Result, error) {
	driven, kept := s.split()
	if len(driven) == 0 {
		return Result{}, s.settle(ctx)
	}
	s.Memory.settled = false
	world, err := s.withEC2(ctx)
	if err != nil {
		return Result{}, err
	}
	goesTo, err := s.NewOwner(ctx)
	if err != nil {
		return Result{}, err
	}
	unremoved, err := s.unremoved(ctx)
	if err != nil {
		return Result{}, err
	}
	result, err := Drive(ctx, world, Pass{
		Now:         s.Now,
		Sync:        s.Before,
		Cluster:     s.Cluster,
		StallAfter:  s.Sync.GetStallAfter(),
		AskEvery:    s.AskEvery,
		AskedAt:     s.Memory.askedAt,
		DiagnosedAt: s.Memory.diagnosedAt,
		Absent:      s.Memory.absent,
		Evicted:     s.Memory.evicted,
		Controller:  s.controllerGate(ctx),
		Cloud:       s.cloudGate(),
		Arrivals:    on.arrivals,
		Successor:   on.successor,
		Leader:      s.leaderGate,
		DaemonSets:  s.daemonSets,
		Log:         s.Log, TerminatesFirst: s.terminatesFirst,
		NewOwner:  goesTo,
		Unremoved: unremoved,
		Pace:      on.pace,
		Holds:     s.heldRemovals(),
		Queued:    s.queued(),
		Counts:    s.counts,
		Frozen:    s.Plan.Frozen.Message,
		Keeps:     s.Sync.KeepsDefinitions(),
	}, driven)
	s.Memory.askedAt, s.Memory.absent = result.AskedAt, result.Absent
	s.Memory.diagnosedAt, s.Memory.evicted = result.DiagnosedAt, result.Evicted
	s.reachPhases(driven, result.Removals)
	s.reportDriven(result)
	unforgotten := s.forgetGone(ctx, result.Removals)
	s.wakeQueued(result.Removals)
	s.Sync.Status.Removals = append(kept, slices.DeleteFunc(result.Removals, func(r v1alpha1.Removal) bool {
		return r.Phase == v1alpha1.RemovalGone
	})...)
	if !result.Again.IsZero() {
		s.WakeBy(result.Again)
	}
	return Result{Writes: result.Writes}, errors.Join(err, unforgotten)
}

// split returns the removals that are driven, and those that are not.
func (s *Step) split() (driven, kept []v1alpha1.Removal) {
	for _, r := range s.Sync.Status.Removals {
		if s.notDriven(r) {
			kept = append(kept, r)
		} else {
			driven = append(driven, r)
		}
	}
	return driven, kept
}

// withEC2 returns the world with an EC2 client, if the region is known.
func (s *Step) withEC2(ctx context.Context) (world World, err error) {
	world = s.world()
	if s.Region != "" {
		world.EC2, err = s.EC2(ctx, s.Region)
	}
	return world, err
}

// leftEvery is how often to check the pods that the last removal has left without a node.
const leftEvery = 15 * time.Second

// settle checks those pods while there are any, because their record matters for the next removal. A daemon that has
// just started does not know whether there are any.
func (s *Step) settle(ctx context.Context) error {
	if s.Memory.settled {
		return nil
	}
	left, err := Settle(ctx, s.world(), Pass{Now: s.Now, Sync: s.Before, StallAfter: s.Sync.GetStallAfter()}, s.remainsInGit)
	if err != nil {
		return err
	}
	if s.Memory.settled = !left; left {
		s.WakeBy(s.Now.Add(leftEvery))
	}
	return nil
}

// remainsInGit reports whether the object with a UID exists, is not terminating, and has an entry in Git.
func (s *Step) remainsInGit(uid types.UID) bool {
	for ref, object := range s.Live.Objects {
		if object.GetUID() == uid {
			return s.inGit(ref) && object.GetDeletionTimestamp() == nil
		}
	}
	return false
}

// reachPhases reports each phase that a removal has entered.
func (s *Step) reachPhases(before, after []v1alpha1.Removal) {
	for i, r := range after {
		if r.Phase != before[i].Phase {
			s.Reached(r.Kind, string(r.Phase))
		}
	}
}

// heldRemovals returns the removals that a person must release, by the object's UID.
func (s *Step) heldRemovals() map[types.UID]Hold {
	holds := map[types.UID]Hold{}
	for _, c := range s.Plan.Removals {
		if c.Held {
			holds[c.UID] = Hold{Reason: c.Reason, Message: c.Message, Reasons: holdReasons(c)}
		}
	}
	return holds
}

// queued returns the removals that wait for others to complete, by the object's UID.
func (s *Step) queued() map[types.UID]string {
	queued := map[types.UID]string{}
	for _, c := range s.Plan.Removals {
		if c.Queued {
			queued[c.UID] = c.Message
		}
	}
	return queued
}

// wakeQueued requests an immediate reconcile if a removal is complete for which others may wait.
func (s *Step) wakeQueued(driven []v1alpha1.Removal) {
	complete := slices.ContainsFunc(driven, func(r v1alpha1.Removal) bool { return r.Phase == v1alpha1.RemovalGone })
	if complete && slices.ContainsFunc(s.Plan.Removals, func(c plan.Candidate) bool { return c.Queued }) {
		s.wakeNow()
	}
}

// LeasedBudgets are the disruption budgets that let Karpenter replace nodes for the removals of a NodeSync, while
// reconciles supervise them.
type LeasedBudgets struct {
	world World
	// sync is the NodeSync as the cluster has it.
	sync *v1alpha1.NodeSync
	now  time.Time
}

// LeasedBudgets returns the budgets that the removals had before this reconcile.
func (s *Step) LeasedBudgets() LeasedBudgets {
	return LeasedBudgets{world: s.world(), sync: s.Before, now: s.Now}
}

// Revoke revokes the budgets if this reconcile, or no reconcile, continues the removals.
func (l LeasedBudgets) Revoke(ctx context.Context, found *finding.Findings) {
	if err := Revoke(ctx, l.world, l.sync, l.now); err != nil {
		found.Warn(v1alpha1.ReasonBrakeFailed,
			"removals are paused, but Karpenter may still start to replace nodes for up to five minutes: "+err.Error())
		found.WakeBy(l.now.Add(l.sync.GetRetryInterval()))
	}
}

// reportDriven reports what was done for removals, and NodeClaims by their number. Removals with the same report share
// an event: one event for each of hundreds would take as many requests, and client-go drops most of that many events.
func (s *Step) reportDriven(result DriveResult) {
	ended := map[render.Ref]int{}
	written, gone := map[string][]string{}, map[string][]string{}
	for _, write := range result.Writes {
		ref := render.Ref{Kind: write.Kind, Name: write.Name}
		if _, isClaim := write.Action.(DeleteNodeClaim); isClaim {
			ended[ref]++
			continue
		}
		if r, is := write.Action.(Replace); is && r.Nodes == 0 {
			continue // it continues once what it has started is complete
		}
		words := write.Action.String()
		written[words] = append(written[words], ref.String())
	}
	for _, words := range slices.Sorted(maps.Keys(written)) {
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonRemoving, fmt.Sprintf("%s: %s", finding.Some(written[words]), words))
	}
	for ref, n := range ended {
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonRemoving,
			fmt.Sprintf("%s: %d %s", ref, n, english.PluralWord(n, "NodeClaim deleted, draining", "NodeClaims deleted, draining")))
	}
	for _, r := range result.Removals {
		if r.Phase == v1alpha1.RemovalGone {
			gone[r.Kind] = append(gone[r.Kind], s.nameOf(r))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(gone)) {
		names := gone[kind]
		s.Event(v1alpha1.ReasonRemoved,
			fmt.Sprintf("%s %s deleted%s", finding.Some(names), english.PluralWord(len(names), "is", "are"), goneReason(kind, len(names))))
	}
	if result.Undiagnosed != nil {
		s.Warn(v1alpha1.ReasonDiagnosisFailed, result.Undiagnosed.Error())
	}
}

// nameOf names what was removed. If another object was created under the name since, it says so.
func (s *Step) nameOf(r v1alpha1.Removal) string {
	ref := plan.RefOf(r)
	if live := s.Live.Objects[ref]; live != nil && live.GetUID() != r.UID {
		return "the former " + ref.String()
	}
	return ref.String()
}

// goneReason states how it is known that n objects of a kind are gone.
func goneReason(kind string, n int) string {
	if kind == render.NodePool {
		return ", and EC2 has terminated all instances of " + english.PluralWord(n, "it", "them")
	}
	return ""
}
