package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// LetGo returns when the guard has allowed a removal, as status.recentRemovals records it.
func LetGo(recent []v1alpha1.RecentRemoval, removal *v1alpha1.Removal) (at time.Time, recorded bool) {
	for i := range recent {
		if recent[i].IsOf(removal) {
			at, recorded = recent[i].At.Time, true
		}
	}
	return at, recorded
}

// span is the time within which removals and terminations count together with what is weighed.
type span struct {
	// after is exclusive, and until inclusive; a zero until is the end of time.
	after, until time.Time
}

func (s span) has(at time.Time) bool {
	return at.After(s.after) && (s.until.IsZero() || !at.After(s.until))
}

// spanOf is the period of some candidates of one revision. It is counted back from when they were recorded, so that what is
// held does not proceed once the period has passed. What was allowed is weighed by what had been allowed until then.
func (m *maker) spanOf(candidates []Candidate) span {
	now := m.policy.Now
	s := span{after: now}
	for _, c := range candidates {
		if !c.Recorded || c.undecided {
			continue
		}
		if at := c.record.RecordedAt.Time; at.Before(s.after) {
			s.after = at
		}
		if at, letGo := LetGo(m.live.RecentRemovals, &c.record); letGo && at.After(s.until) {
			s.until = at
		}
	}
	s.after = s.after.Add(-m.policy.Guard.GetRemovalPeriod())
	return s
}

// openPools are the NodePools whose nodes are leaving: by a removal that has
// ended NodeClaims, also where Git has taken it back since. They are names by UID.
func (m *maker) openPools() map[types.UID]string {
	open := map[types.UID]string{}
	for _, r := range m.live.Removals {
		if r.Kind == render.NodePool && m.begun(r) && !m.back(r) && !m.passedOn(r) {
			open[r.UID] = r.Name
		}
	}
	for ref := range m.inSet {
		if ref.Kind == render.NodePool && m.emptying(ref) {
			open[cmp.Or(m.claims()[ref][0].PoolUID, types.UID(ref.Name))] = ref.Name // the pool itself may be gone
		}
	}
	return open
}

// poolsWithin are the NodePools, among those that are open and those that were removed, that count within a span. A pool of Git
// all of whose nodes are terminating always does, and so does what no period is known of.
func (m *maker) poolsWithin(s span, open map[types.UID]string) map[types.UID]string {
	within := map[types.UID]string{}
	for uid, name := range open {
		if m.countsWithin(s, uid) {
			within[uid] = name
		}
	}
	for _, r := range m.recent() {
		if s.has(r.At.Time) {
			within[r.UID] = r.Name
		}
	}
	return within
}

// recent are status.recentRemovals; none if removals of several commits do not count together.
func (m *maker) recent() []v1alpha1.RecentRemoval {
	if m.policy.Guard.GetRemovalPeriod() <= 0 {
		return nil
	}
	return m.live.RecentRemovals
}

// countsWithin reports whether a NodePool that is open counts within a span.
func (m *maker) countsWithin(s span, uid types.UID) bool {
	record, ok := m.live.removal(uid)
	if !ok || !m.begun(record) || m.back(record) {
		return true // it is in Git, and another client or a removal that was reverted terminates its nodes
	}
	at, known := LetGo(m.live.RecentRemovals, &record)
	if !known {
		at = record.RecordedAt.Time
	}
	return s.has(at)
}

// removedNodes is how many nodes are gone of the NodePools that count within a span: those that are still there count among those
// that are terminating, or that a candidate drains.
func (m *maker) removedNodes(s span) int {
	recent := m.recent()
	if len(recent) == 0 {
		return 0
	}
	all, deleting := map[types.UID]int{}, map[types.UID]int{}
	for i := range m.live.NodeClaims {
		c := &m.live.NodeClaims[i]
		if all[c.PoolUID]++; c.Deleting {
			deleting[c.PoolUID]++
		}
	}
	gone := 0
	for _, r := range recent {
		there := deleting[r.UID] // of one that was reverted
		if record, open := m.live.removal(r.UID); open && !m.back(record) && r.IsOf(&record) {
			if !m.begun(record) {
				continue // a candidate, which drains what it has
			}
			there = all[r.UID]
		}
		if !s.has(r.At.Time) {
			continue
		}
		gone += max(0, int(r.Nodes)-there)
	}
	return gone
}

// queue has a removal wait for those of other NodePools.
func (c *Candidate) queue(behind []string) {
	if c.Held || c.Queued || len(behind) == 0 {
		return
	}
	names := make([]string, 0, len(behind))
	for _, name := range behind {
		names = append(names, poolRefOf(name).String())
	}
	slices.Sort(names)
	c.Queued, c.Reason, c.Message = true, v1alpha1.ReasonQueued, fmt.Sprintf("queued: waits for the removal of %s", someOf(names))
}
