package removal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// endReverted ends the removals of entries that are in Git again. If the object is not written yet, because its change is
// held, waits, is refused or has failed, the removal keeps its record and is not driven: what it was held or stalled for
// no longer applies.
func (s *Step) endReverted(ctx context.Context, pace Pace) ([]Write, error) {
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
			s.noteReturned(r.UID)
			continue
		}
		back = append(back, r)
		s.Memory.settled = false
	}
	for _, r := range s.Sync.Status.Removals {
		if s.isRemovedAgain(r) && restrained(s.Live.Objects[plan.RefOf(r)].Unstructured) < 0 {
			back = append(back, r)
			s.Memory.settled = false
		}
	}
	// The record is dropped first: once the removal is no longer in the status, nothing would look for the record.
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
		s.Event(v1alpha1.ReasonRemovalReverted, s.revertReason(open))
		if s.inGit(plan.RefOf(open)) || s.isRemovedAgain(open) {
			reverted = append(reverted, s.reverted(open, claims[open.UID]))
		}
		return true
	})
	return reverted, nil
}

// noteReturned records why a removal does not continue. From now on it counts with the nodes that it has terminated.
func (s *Step) noteReturned(uid types.UID) {
	for i := range s.Sync.Status.Removals {
		r := &s.Sync.Status.Removals[i]
		if r.UID != uid {
			continue
		}
		stay, terminating := s.countClaims(uid)
		if !r.Returned() {
			s.recordReverted(*r, terminating)
		}
		if r.Kind == render.NodePool {
			r.Remaining = int32(stay + terminating)
		}
		r.Reason, r.Reasons, r.Stalled = v1alpha1.ReasonReturned, nil, nil
		r.Message = fmt.Sprintf("%s is in Git again: its removal is reverted once its change is applied", plan.RefOf(*r))
	}
}

// isRemovedAgain reports whether the entry of a removal was in Git again and was removed from it again, which is another
// removal. That one is recorded once what the earlier one did to the pool is restored.
func (s *Step) isRemovedAgain(r v1alpha1.Removal) bool {
	live := s.Live.Objects[plan.RefOf(r)]
	return r.Returned() && live != nil && live.GetUID() == r.UID &&
		slices.ContainsFunc(s.Plan.Removals, func(c plan.Candidate) bool { return c.UID == r.UID && !c.Recorded })
}

// restore restores growth and disruption budgets of NodePools that are in Git but whose changes are not written, and of
// those that another NodeSync has, or may have: their nodes stay as they are until then, and so do the pools.
func (s *Step) restore(ctx context.Context) error {
	held, briefly := s.unwritten(), []types.UID{}
	for _, r := range s.Sync.Status.Removals {
		if s.isRemovedAgain(r) {
			held = append(held, s.Live.Objects[plan.RefOf(r)].Unstructured)
			s.WakeBy(s.Now.Add(finding.Soon))
		}
	}
	for _, k := range s.Plan.Kept {
		live := s.Live.Objects[k.Ref]
		switch {
		case live == nil || live.GetUID() != k.UID || k.Ref.Kind != render.NodePool:
		case !k.HandedOver && (k.Since.IsZero() || s.Now.Before(k.Since.Add(pauseForUnknown))):
			briefly = append(briefly, k.UID)
		default:
			held = append(held, live.Unstructured)
		}
	}
	if err := s.pause(ctx, briefly); err != nil {
		return err
	}
	limited := s.Sync.Status.LimitedPools()
	if s.Sync.HoldsDisruption() {
		for _, pool := range held {
			limited[pool.GetName()] = true
		}
	}
	again, err := Restore(ctx, s.world(), s.Sync, s.Now, held, limited)
	if !again.IsZero() {
		s.WakeBy(again)
	}
	return err
}

// unwritten returns the NodePools in Git whose changes are held or wait for a window, and those whose removal was
// recorded and whose change is not written in this reconcile, for whatever reason. It omits a pool whose disruption
// budgets are all that is left of its removal. If a pool settles, it requests another reconcile.
func (s *Step) unwritten() (pools []*unstructured.Unstructured) {
	for i := range s.Plan.Changes {
		c := &s.Plan.Changes[i]
		if c.Settles != nil {
			s.WakeBy(s.Now.Add(Settles))
		}
		if c.Live == nil || c.Ref.Kind != render.NodePool {
			continue
		}
		reverts := s.isReturned(c.Live.GetUID()) && c.Reason != plan.ReasonSettling &&
			!slices.ContainsFunc(s.Written, func(w plan.Write) bool { return w.Ref == c.Ref })
		if reverts || c.Action == plan.Hold || c.Reason == plan.ReasonFrozen {
			pools = append(pools, c.Live)
		}
	}
	return pools
}

// isReturned reports whether a removal must not continue, because its entry is in Git again or belongs to another
// NodeSync.
func (s *Step) isReturned(uid types.UID) bool {
	return slices.ContainsFunc(s.Plan.Returned, func(back v1alpha1.Removal) bool { return back.UID == uid })
}

// pauseForUnknown is how long a removal is only paused while it is unknown what another NodeSync has. After a restart
// of the daemon this is known within seconds, and if the pool grew again meanwhile, all its nodes would match and then
// drift once more.
const pauseForUnknown = time.Minute

// pause stops Karpenter from starting to replace more nodes of some pools.
func (s *Step) pause(ctx context.Context, pools []types.UID) error {
	if len(pools) == 0 {
		return nil
	}
	s.WakeBy(s.Now.Add(pauseForUnknown))
	paused := s.Before.DeepCopy()
	paused.Status.Removals = slices.DeleteFunc(paused.Status.Removals, func(r v1alpha1.Removal) bool { return !slices.Contains(pools, r.UID) })
	return Revoke(ctx, s.world(), paused, s.Now)
}

// reverted returns the write that reports a reverted removal, and how many of its NodeClaims are terminated.
func (s *Step) reverted(r v1alpha1.Removal, claims Unrecorded) Write {
	stay, _ := s.countClaims(r.UID)
	terminated := max(claims.Terminated, claims.NodeClaims-stay, 0)
	return Write{Kind: r.Kind, Name: r.Name, Action: Reverted{
		Commit: render.CommitOf(r.Revision), Ended: terminated, NodeClaims: max(claims.NodeClaims, terminated+stay),
	}}
}

// revertReason returns why a removal ended early.
func (s *Step) revertReason(r v1alpha1.Removal) string {
	ref := plan.RefOf(r)
	for _, k := range s.Plan.Kept {
		if k.Ref == ref {
			return k.Message
		}
	}
	switch drained := r.Revision == plan.RevisionDeleted; {
	case s.Sync.KeepsDefinitions() && r.Kind != render.NodePool:
		return fmt.Sprintf("%s stays while its NodeSync is drained", ref)
	case s.inGit(ref) && drained:
		return fmt.Sprintf("the drain of %s is reverted: Karpenter may launch its nodes again", ref)
	case s.isRemovedAgain(r):
		return fmt.Sprintf("%s was in Git again, and is removed by another commit: its first removal is reverted", ref)
	case s.inGit(ref):
		return fmt.Sprintf("%s is in Git again: its removal is reverted", ref)
	}
	return fmt.Sprintf("%s no longer belongs to this NodeSync and stays", ref)
}

// notDriven reports whether a removal is paused: its entry is in Git again, another NodeSync has it, or may have it, it
// is orphaned, the object stays without nodes, or another removal of it starts once the pool is restored.
func (s *Step) notDriven(r v1alpha1.Removal) bool {
	return s.leftAsIs(r.UID) || s.isReturned(r.UID) || s.isRemovedAgain(r) ||
		slices.ContainsFunc(s.Plan.Kept, func(k plan.Kept) bool { return k.UID == r.UID })
}

// waitForOthers records a wait for each object that stays because of another NodeSync.
func (s *Step) waitForOthers() {
	for _, k := range s.Plan.Kept {
		s.WaitFor("NodeSync/"+k.By, k.Message, k.Since, s.Sync.GetStallAfter())
	}
}

// recordRecent records which NodePools the guard allows to remove, before their removals start, and drops records that no
// longer count for later removals.
func (s *Step) recordRecent() {
	status, now := &s.Sync.Status, s.timestamp()
	s.counts = map[types.UID]bool{}
	for i := range status.RecentRemovals {
		if r := &status.RecentRemovals[i]; r.At.After(now.Time) { // the clock was set back
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
		if period > 0 && i >= 0 {
			status.RecentTerminations = plan.RecordReleased(status.RecentTerminations, c, now)
		}
		if period <= 0 || i < 0 || c.Held || c.Queued || c.Orphan || c.Ref.Kind != render.NodePool {
			continue
		}
		s.counts[c.UID] = true
		if _, recorded := plan.GuardAllowedAt(status.RecentRemovals, &status.Removals[i]); recorded {
			s.recordGrowth(c, &status.Removals[i])
		} else {
			status.RecentRemovals = append(status.RecentRemovals,
				v1alpha1.RecentRemoval{Name: c.Ref.Name, UID: c.UID, At: now, Nodes: int32(c.Nodes)})
			s.wakeNow()
		}
	}
	plan.ForgetRecent(status, period, s.Now)
}

// recordGrowth also counts for a removal the nodes that its pool has launched since the guard allowed it, until the
// pool's growth is stopped.
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

// recordReverted lets a reverted removal count with the nodes that it has terminated, or not at all if there are none.
// The record includes nodes that the pool launched after the guard counted it, and before its growth was stopped.
func (s *Step) recordReverted(r v1alpha1.Removal, terminated int) {
	stay, _ := s.countClaims(r.UID)
	if r.Returned() {
		stay = 0 // they were subtracted when that was noted
	}
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

// countClaims returns how many NodeClaims of a NodePool stay, and how many are terminating.
func (s *Step) countClaims(pool types.UID) (stay, terminating int) {
	for i := range s.Live.NodeClaims {
		switch c := &s.Live.NodeClaims[i]; {
		case c.PoolUID != pool:
		case c.Deleting:
			terminating++
		default:
			stay++
		}
	}
	return stay, terminating
}
