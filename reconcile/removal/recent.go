package removal

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

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
