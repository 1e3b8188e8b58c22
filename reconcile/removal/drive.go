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

// Run records what has left the repository, and takes what an earlier reconcile has recorded
// one step further.
func (s *Step) Run(ctx context.Context) (Result, error) {
	reverted, err := s.takeBack(ctx, s.pace())
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
	s.predate()
	s.recordRecent()
	result, err := s.drive(ctx, terms{arrivals: s.arrivalsGate(), successor: s.successorGate(), pace: s.pace()})
	result.Writes = append(reverted, result.Writes...)
	return result, err
}

// Drain takes everything away that is ours, or only the nodes. It was asked for by name, so that no
// guard weighs it.
func (s *Step) Drain(ctx context.Context) (Result, error) {
	if _, err := s.takeBack(ctx, Pace{All: true}); err != nil {
		return Result{}, err
	}
	s.waitForOthers()
	if _, err := s.awaitRelabelled(ctx); err != nil {
		return Result{}, err
	}
	s.recordCandidates()
	// Everything goes, so that nothing arrives, no pool takes the pods, and there is
	// nothing to wait for between one node and the next.
	open := func(v1alpha1.Removal) Gate { return Gate{Open: true} }
	return s.drive(ctx, terms{arrivals: open, successor: open, pace: Pace{All: true}})
}

// terms are on which removals go on.
type terms struct {
	arrivals, successor func(v1alpha1.Removal) Gate
	pace                Pace
}

// drive takes all removals that Git has not taken back one step further.
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
	goesTo, err := s.GoesTo(ctx)
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
		Log:         s.Log, EndsFirst: s.endsFirst,
		GoesTo:    goesTo,
		Unremoved: unremoved,
		Pace:      on.pace,
		Holds:     s.holds(),
		Queued:    s.queued(),
		Counts:    s.counts,
		Frozen:    s.Plan.Frozen.Message,
		Keeps:     s.Sync.Keeps(),
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

// split are the removals that are driven, and those that are not.
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

// withEC2 is the world with EC2, where the region is known.
func (s *Step) withEC2(ctx context.Context) (world World, err error) {
	world = s.world()
	if s.Region != "" {
		world.EC2, err = s.EC2(ctx, s.Region)
	}
	return world, err
}

// leftEvery is how often the pods are looked at that the last removal has left without a node.
const leftEvery = 15 * time.Second

// settle looks at those pods, as long as there are any: what is recorded of them is for the next
// removal. A daemon that has only begun does not know whether there are.
func (s *Step) settle(ctx context.Context) error {
	if s.Memory.settled {
		return nil
	}
	left, err := Settle(ctx, s.world(), Pass{Now: s.Now, Sync: s.Before, StallAfter: s.Sync.GetStallAfter()}, s.stays)
	if err != nil {
		return err
	}
	if s.Memory.settled = !left; left {
		s.WakeBy(s.Now.Add(leftEvery))
	}
	return nil
}

// stays reports whether the object of a UID lives, and Git has an entry for it.
func (s *Step) stays(uid types.UID) bool {
	for ref, object := range s.Live.Objects {
		if object.GetUID() == uid {
			return s.wants(ref) && object.GetDeletionTimestamp() == nil
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

// holds are the removals that a person has to release, by the object's UID.
func (s *Step) holds() map[types.UID]Hold {
	holds := map[types.UID]Hold{}
	for _, c := range s.Plan.Removals {
		if c.Held {
			holds[c.UID] = Hold{Reason: c.Reason, Message: c.Message, Reasons: severalOf(c)}
		}
	}
	return holds
}

// queued are the removals that wait for others to complete, by the object's UID.
func (s *Step) queued() map[types.UID]string {
	queued := map[types.UID]string{}
	for _, c := range s.Plan.Removals {
		if c.Queued {
			queued[c.UID] = c.Message
		}
	}
	return queued
}

// wakeQueued asks for a reconcile at once if a removal is complete for which others may wait.
func (s *Step) wakeQueued(driven []v1alpha1.Removal) {
	complete := slices.ContainsFunc(driven, func(r v1alpha1.Removal) bool { return r.Phase == v1alpha1.RemovalGone })
	if complete && slices.ContainsFunc(s.Plan.Removals, func(c plan.Candidate) bool { return c.Queued }) {
		s.wakeNow()
	}
}

// LeasedBudgets is what Karpenter may replace for the removals of a NodeSync, as long as passes look after them.
type LeasedBudgets struct {
	world World
	// sync is the NodeSync as the cluster has it.
	sync *v1alpha1.NodeSync
	now  time.Time
}

// LeasedBudgets is what the removals have lent before this reconcile.
func (s *Step) LeasedBudgets() LeasedBudgets {
	return LeasedBudgets{world: s.world(), sync: s.Before, now: s.Now}
}

// Revoke calls it back, where this reconcile, or none, goes on with the removals.
func (l LeasedBudgets) Revoke(ctx context.Context, found *finding.Findings) {
	if err := Revoke(ctx, l.world, l.sync, l.now); err != nil {
		found.Warn(v1alpha1.ReasonBrakeFailed, "removals are paused, but Karpenter may still start to replace nodes for up to five minutes: "+err.Error())
		found.WakeBy(l.now.Add(l.sync.GetRetryInterval()))
	}
}

// slow is how long a reconcile may take until what is lent is called back meanwhile: a Git host that does not answer, say, keeps
// it from seeing that a freeze has begun.
const slow = 15 * time.Second

// Unless calls it back once the reconcile takes long, unless it was ended before; ending waits for that.
func (l LeasedBudgets) Unless(ctx context.Context) (ended func()) {
	if len(l.sync.Status.Removals) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-time.After(slow):
			_ = Revoke(ctx, l.world, l.sync, l.now) // the reconcile, or the next one, tries again
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// reportDriven reports what was done for removals, NodeClaims by their number. Removals of which it reports the same share an event:
// one for each of hundreds would be as many requests, and client-go drops most of so many events.
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
			continue // it goes on when what it has begun is done
		}
		words := write.Action.String()
		written[words] = append(written[words], ref.String())
	}
	for _, words := range slices.Sorted(maps.Keys(written)) {
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonRemoving, fmt.Sprintf("%s: %s", finding.Some(written[words]), words))
	}
	for ref, n := range ended {
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonRemoving, fmt.Sprintf("%s: %d %s", ref, n, english.PluralWord(n, "NodeClaim deleted, draining", "NodeClaims deleted, draining")))
	}
	for _, r := range result.Removals {
		if r.Phase == v1alpha1.RemovalGone {
			gone[r.Kind] = append(gone[r.Kind], s.nameOf(r))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(gone)) {
		names := gone[kind]
		s.Event(v1alpha1.ReasonRemoved, fmt.Sprintf("%s %s deleted%s", finding.Some(names), english.PluralWord(len(names), "is", "are"), proof(kind, len(names))))
	}
	if result.Undiagnosed != nil {
		s.Warn(v1alpha1.ReasonDiagnosisFailed, result.Undiagnosed.Error())
	}
}

// nameOf names what was removed; an object that was recreated under its name is another.
func (s *Step) nameOf(r v1alpha1.Removal) string {
	ref := plan.RefOf(r)
	if live := s.Live.Objects[ref]; live != nil && live.GetUID() != r.UID {
		return "the former " + ref.String()
	}
	return ref.String()
}

// proof is by what it is known that n objects of a kind are gone.
func proof(kind string, n int) string {
	if kind == render.NodePool {
		return ", and EC2 has terminated all instances of " + english.PluralWord(n, "it", "them")
	}
	return ""
}
