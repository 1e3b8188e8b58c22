package removal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// takeBack ends the removals of entries that Git has again. One whose object is
// not written yet keeps its record, and is not driven on.
func (s *Step) takeBack(ctx context.Context, pace Pace) ([]Write, error) {
	pending := map[render.Ref]bool{}
	for _, c := range s.Plan.Changes {
		pending[c.Ref] = true
	}
	for _, w := range s.Written {
		delete(pending, w.Ref)
	}
	var back []v1alpha1.Removal
	for _, r := range s.Plan.Returned {
		if pending[plan.RefOf(r)] {
			continue
		}
		back = append(back, r)
		s.Memory.settled = false
	}
	// The record goes first: once the status lacks the removal, nobody would look
	// for it.
	claims, err := Unrecord(ctx, s.world(), Pass{Now: s.Now, Sync: s.Sync, Pace: pace}, back...)
	if err != nil {
		return nil, err
	}
	var reverted []Write
	s.Sync.Status.Removals = slices.DeleteFunc(s.Sync.Status.Removals, func(open v1alpha1.Removal) bool {
		if !slices.ContainsFunc(back, func(r v1alpha1.Removal) bool { return r.UID == open.UID }) {
			return false
		}
		s.recordReverted(open, claims[open.UID].Terminated)
		if left := s.leftUnmanaged(open); left != "" {
			s.Event(v1alpha1.ReasonOrphaned, left)
			return true
		}
		s.Event(v1alpha1.ReasonRemovalReverted, s.whyReturned(open))
		if s.wants(plan.RefOf(open)) {
			reverted = append(reverted, s.reverted(open, claims[open.UID]))
		}
		return true
	})
	return reverted, nil
}

// restore gives back growth and disruption budgets to what Git has, and is held or waits for a window,
// and to what another NodeSync has, or may have: its nodes stay as they are until then, and so does the
// pool.
func (s *Step) restore(ctx context.Context) error {
	held, briefly := s.unwritten(), []types.UID{}
	for _, k := range s.Plan.Kept {
		live := s.Live.Objects[k.Ref]
		switch {
		case live == nil || live.GetUID() != k.UID || k.Ref.Kind != render.NodePool:
		case !k.HandedOver && (k.Since.IsZero() || s.Now.Before(k.Since.Add(brief))):
			briefly = append(briefly, k.UID)
		default:
			held = append(held, live.Unstructured)
		}
	}
	if err := s.pause(ctx, briefly); err != nil {
		return err
	}
	again, err := Restore(ctx, s.world(), s.Sync, s.Now, held, s.Sync.Status.BrakedPools())
	if !again.IsZero() {
		s.WakeBy(again)
	}
	return err
}

// unwritten are the NodePools of Git whose changes are held or wait for a window. Of one that settles it has another look
// made.
func (s *Step) unwritten() (pools []*unstructured.Unstructured) {
	for i := range s.Plan.Changes {
		c := &s.Plan.Changes[i]
		if c.Settles != nil {
			s.WakeBy(s.Now.Add(Settles))
		}
		if (c.Action == plan.Hold || c.Reason == plan.ReasonFrozen) && c.Live != nil && c.Ref.Kind == render.NodePool {
			pools = append(pools, c.Live)
		}
	}
	return pools
}

// brief is how long a removal only pauses that waits to know what another NodeSync has: after a restart of the daemon that is
// known in seconds, and a pool that grew again meanwhile would have all its nodes match and drift once more.
const brief = time.Minute

// pause has Karpenter begin to replace no more nodes of some pools.
func (s *Step) pause(ctx context.Context, pools []types.UID) error {
	if len(pools) == 0 {
		return nil
	}
	s.WakeBy(s.Now.Add(brief))
	paused := s.Before.DeepCopy()
	paused.Status.Removals = slices.DeleteFunc(paused.Status.Removals, func(r v1alpha1.Removal) bool { return !slices.Contains(pools, r.UID) })
	return Revoke(ctx, s.world(), paused, s.Now)
}

// reverted is the write that reports a reverted removal, and how many of its NodeClaims are terminated.
func (s *Step) reverted(r v1alpha1.Removal, claims Unrecorded) Write {
	stay := s.staying(r.UID)
	terminated := max(claims.Terminated, claims.NodeClaims-stay, 0)
	return Write{Kind: r.Kind, Name: r.Name, Action: Reverted{
		Commit: render.CommitOf(r.Revision), Ended: terminated, NodeClaims: max(claims.NodeClaims, terminated+stay),
	}}
}

// whyReturned says why a removal has ended before its time.
func (s *Step) whyReturned(r v1alpha1.Removal) string {
	ref := plan.RefOf(r)
	for _, k := range s.Plan.Kept {
		if k.Ref == ref {
			return k.Message
		}
	}
	switch drained := r.Revision == plan.RevisionDeleted; {
	case s.Sync.Keeps() && r.Kind != render.NodePool:
		return fmt.Sprintf("%s stays while its NodeSync is drained", ref)
	case s.wants(ref) && drained:
		return fmt.Sprintf("the drain of %s is reverted: Karpenter may launch its nodes again", ref)
	case s.wants(ref):
		return fmt.Sprintf("%s is in Git again: its removal is reverted", ref)
	}
	return fmt.Sprintf("%s no longer belongs to this NodeSync and stays", ref)
}

// notDriven reports whether a removal stands still: Git has its entry again, another
// NodeSync has it, or may have it, it is orphaned, or it stays without nodes.
func (s *Step) notDriven(r v1alpha1.Removal) bool {
	return s.leftAsIs(r.UID) || slices.ContainsFunc(s.Plan.Returned, func(back v1alpha1.Removal) bool { return back.UID == r.UID }) ||
		slices.ContainsFunc(s.Plan.Kept, func(k plan.Kept) bool { return k.UID == r.UID })
}

// waitForOthers notes what stays because of another NodeSync.
func (s *Step) waitForOthers() {
	for _, k := range s.Plan.Kept {
		s.WaitFor("NodeSync/"+k.By, k.Message, k.Since, s.Sync.GetStallAfter())
	}
}

// recordRecent records which NodePools the guard allows to leave, before their removals start, and drops what counts for no
// later one.
func (s *Step) recordRecent() {
	status, now := &s.Sync.Status, s.timestamp()
	s.counts = map[types.UID]bool{}
	for i := range status.RecentRemovals {
		if r := &status.RecentRemovals[i]; r.At.After(now.Time) { // the clock was put back
			r.At = now
		}
	}
	for i := range status.RecentTerminations {
		if r := &status.RecentTerminations[i]; r.At.After(now.Time) {
			r.At = now
		}
	}
	period := s.Sync.Spec.Guard.GetRemovalPeriod()
	for _, c := range s.Plan.Removals {
		i := slices.IndexFunc(status.Removals, func(r v1alpha1.Removal) bool { return r.UID == c.UID })
		if period <= 0 || i < 0 || c.Held || c.Queued || c.Orphan || c.Ref.Kind != render.NodePool {
			continue
		}
		s.counts[c.UID] = true
		if _, recorded := plan.LetGo(status.RecentRemovals, &status.Removals[i]); recorded {
			s.recordGrowth(c, &status.Removals[i])
		} else {
			status.RecentRemovals = append(status.RecentRemovals, v1alpha1.RecentRemoval{Name: c.Ref.Name, UID: c.UID, At: now, Nodes: int32(c.Nodes)})
			s.wakeNow()
		}
	}
	plan.ForgetRecent(status, period, s.Now)
}

// recordGrowth has a removal count with the nodes that its pool has launched since it was allowed, until its growth is stopped.
func (s *Step) recordGrowth(c plan.Candidate, r *v1alpha1.Removal) {
	if r.Phase != v1alpha1.RemovalPacing {
		return
	}
	for i := range s.Sync.Status.RecentRemovals {
		if e := &s.Sync.Status.RecentRemovals[i]; e.IsOf(r) {
			e.Nodes = max(e.Nodes, int32(c.Nodes))
		}
	}
}

// recordReverted has a removal that was reverted count with the nodes that it has terminated, and not at all if that is none. The
// record has those that the pool launched after the guard counted it, and before its growth was stopped.
func (s *Step) recordReverted(r v1alpha1.Removal, terminated int) {
	stay := s.staying(r.UID)
	var recent []v1alpha1.RecentRemoval
	for _, e := range s.Sync.Status.RecentRemovals {
		if e.IsOf(&r) {
			e.Nodes = int32(max(int(e.Nodes)-stay, terminated))
			if e.Nodes <= 0 {
				continue
			}
		}
		recent = append(recent, e)
	}
	s.Sync.Status.RecentRemovals = recent
}

// staying is how many NodeClaims of a NodePool are not terminating.
func (s *Step) staying(pool types.UID) int {
	stay := 0
	for i := range s.Live.NodeClaims {
		if c := &s.Live.NodeClaims[i]; c.PoolUID == pool && !c.Deleting {
			stay++
		}
	}
	return stay
}
