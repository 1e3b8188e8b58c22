package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// GuardAllowedAt returns when the guard has allowed a removal, as status.recentRemovals records it.
func GuardAllowedAt(recent []v1alpha1.RecentRemoval, removal *v1alpha1.Removal) (at time.Time, recorded bool) {
	for i := range recent {
		if recent[i].IsOf(removal) {
			at, recorded = recent[i].At.Time, true
		}
	}
	return at, recorded
}

// span is the period within which removals and terminations count together with what is checked.
type span struct {
	// after is exclusive, and until inclusive; a zero until means no limit.
	after, until time.Time
}

func (s span) has(at time.Time) bool {
	return at.After(s.after) && (s.until.IsZero() || !at.After(s.until))
}

// spanOf returns the period of candidates of one revision. It is counted back from when they were recorded, so that
// held ones do not proceed once the period has passed. An allowed removal is checked against what had been allowed
// until then.
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
		if at, letGo := GuardAllowedAt(m.live.RecentRemovals, &c.record); letGo && at.After(s.until) {
			s.until = at
		}
	}
	s.after = s.after.Add(-m.policy.Guard.GetRemovalPeriod())
	return s
}

// openPools returns the NodePools whose nodes are terminating because of a removal, even if Git contains them again
// since: names by UID.
func (m *maker) openPools() map[types.UID]string {
	open := map[types.UID]string{}
	for _, r := range m.live.Removals {
		if r.Kind == render.NodePool && m.started(r) && !m.backInGit(r) && !m.handedOver(r) {
			open[r.UID] = r.Name
		}
	}
	for ref := range m.inSet {
		if ref.Kind == render.NodePool && m.allNodesTerminating(ref) {
			open[cmp.Or(m.claims()[ref][0].PoolUID, types.UID(ref.Name))] = ref.Name // the pool itself may be deleted
		}
	}
	return open
}

// poolsWithin returns the open and the removed NodePools that count within a span. A pool in Git all of whose nodes are
// terminating always counts, and so does one without a known period.
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

// recent returns status.recentRemovals; none if removals of several commits do not count together.
func (m *maker) recent() []v1alpha1.RecentRemoval {
	if m.policy.Guard.GetRemovalPeriod() <= 0 {
		return nil
	}
	return m.live.RecentRemovals
}

// countsWithin reports whether an open NodePool counts within a span.
func (m *maker) countsWithin(s span, uid types.UID) bool {
	record, ok := m.live.removal(uid)
	if !ok || !m.started(record) || m.backInGit(record) {
		return true // it is in Git, and another client or a removal that was reverted terminates its nodes
	}
	at, known := GuardAllowedAt(m.live.RecentRemovals, &record)
	if !known {
		at = record.RecordedAt.Time
	}
	return s.has(at)
}

// removedNodes returns how many nodes of the NodePools that count within a span no longer exist: the others count among
// those that are terminating, or that a candidate drains.
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
		there := deleting[r.UID] // of a removal that was reverted
		if record, open := m.live.removal(r.UID); open && !record.Returned() && !m.backInGit(record) && r.IsOf(&record) {
			if !m.started(record) {
				continue // a candidate, which drains its remaining nodes
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

// queue makes a removal wait for those of other NodePools.
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

// terminates returns how many nodes a Change lets Karpenter terminate without a replacement.
func (c *Change) terminates() int {
	if c.Effect == EffectDrain || c.Ref.Kind == render.CapacityBuffer {
		return len(c.consolidated) + c.Nodes
	}
	return len(c.consolidated) + len(c.expiring)
}

// Disrupts reports whether Karpenter replaces or terminates nodes because of the Change, or may. A Change that only
// restores what was applied before does not count.
func (c *Change) Disrupts() bool {
	replaces := c.Nodes > 0 && (c.Effect == EffectReplace || c.Effect == EffectDrain)
	return !c.Restores && (replaces || c.terminates() > 0)
}

// RecordTerminations returns status.recentTerminations plus the Changes that are about to be written. A Change that is
// written again, because it failed, has one record.
func RecordTerminations(recent []v1alpha1.RecentTermination, revision string, due []Change, now metav1.Time) []v1alpha1.RecentTermination {
	recent = slices.Clone(recent)
	for i := range due {
		c := &due[i]
		if c.Live == nil || !proceedsAndCounts(c) || c.terminates() == 0 {
			continue
		}
		again := slices.IndexFunc(recent, func(r v1alpha1.RecentTermination) bool {
			return r.UID == c.Live.GetUID() && r.Revision == revision
		})
		if again < 0 {
			recent = append(recent, v1alpha1.RecentTermination{
				Name: c.Ref.Name, UID: c.Live.GetUID(), Revision: revision, At: now, Nodes: int32(c.terminates()),
			})
			continue
		}
		recent[again].At, recent[again].Nodes = now, max(recent[again].Nodes, int32(c.terminates()))
	}
	return recent
}

// RecordReleased returns status.recentTerminations plus the removal of a CapacityBuffer that the guard allows.
func RecordReleased(recent []v1alpha1.RecentTermination, c Candidate, now metav1.Time) []v1alpha1.RecentTermination {
	recorded := slices.ContainsFunc(recent, func(r v1alpha1.RecentTermination) bool { return r.UID == c.UID && r.Revision == c.Revision })
	if recorded || !c.UpTo || c.Nodes == 0 || c.Held || c.Queued || c.Orphan {
		return recent
	}
	return append(slices.Clone(recent),
		v1alpha1.RecentTermination{Name: c.Ref.Name, UID: c.UID, Revision: c.Revision, At: now, Nodes: int32(c.Nodes)})
}

// TerminationsOf returns status.recentTerminations of a NodeSync, plus those that other NodeSyncs recorded for
// NodePools that are in its Git now: a NodePool that moves between NodeSyncs keeps its count.
func TerminationsOf(set *render.Set, live Live, all []v1alpha1.NodeSync, of *v1alpha1.NodeSync) []v1alpha1.RecentTermination {
	found := slices.Clip(live.RecentTerminations)
	for i := range all {
		if all[i].UID == of.UID {
			continue
		}
		for _, r := range all[i].Status.RecentTerminations {
			ref := poolRefOf(r.Name)
			object, inGit := live.Objects[ref], func(o render.Object) bool { return o.Ref == ref }
			if object != nil && object.GetUID() == r.UID && slices.ContainsFunc(set.Objects, inGit) {
				found = append(found, r)
			}
		}
	}
	return found
}

// recentTerminations returns how many nodes Karpenter has terminated, or may still terminate, because of changes of
// earlier commits within a span, by NodePool name. Nodes that are terminating now, or that the removal of their
// NodePool drains, count there instead.
func (m *maker) recentTerminations(s span) map[string]int {
	if m.policy.Guard.GetRemovalPeriod() <= 0 {
		return nil
	}
	let, names := map[types.UID]int{}, map[types.UID]string{}
	for _, r := range m.live.RecentTerminations {
		record, open := m.live.removal(r.UID)
		counted := open && record.Revision == r.Revision // as a candidate
		if s.has(r.At.Time) && !counted && !m.stillToWrite(r) {
			let[r.UID] += int(r.Nodes)
			names[r.UID] = r.Name
		}
	}
	found := map[string]int{}
	for uid, nodes := range let {
		ref := poolRefOf(names[uid])
		for _, c := range m.claims()[ref] {
			if c.PoolUID == uid && (c.Deleting || !m.inSet[ref]) {
				nodes--
			}
		}
		if nodes > 0 {
			found[ref.Name] += nodes
		}
	}
	return found
}

// stillToWrite reports whether the Plan contains the Change of a record, because it was not written: it counts by
// itself.
func (m *maker) stillToWrite(r v1alpha1.RecentTermination) bool {
	ref := poolRefOf(r.Name)
	if strings.Contains(r.Name, "/") {
		ref.Kind = render.CapacityBuffer
	}
	change, ok := m.changes[ref]
	return ok && r.Revision == m.revision && change.terminates() > 0
}

// wasHeld reports whether a Change was held before: what it was held for counts until a person decides.
func (m *maker) wasHeld(c *Change) bool {
	return m.live.Held != nil && slices.ContainsFunc(m.live.Held.Entries, func(e v1alpha1.ApprovedEntry) bool {
		return c.Ref == render.Ref{Kind: e.Kind, Name: e.Name}
	})
}

// ForgetRecent drops the removals and terminations from a status that no later Plan counts: they are older than the
// period, no open or pending removal needs them, and no change is held.
func ForgetRecent(status *v1alpha1.NodeSyncStatus, period time.Duration, now time.Time) {
	var removals []v1alpha1.RecentRemoval
	for _, r := range status.RecentRemovals {
		if stillCounts(status, r.UID, r.At.Time, period, now) {
			removals = append(removals, r)
		}
	}
	var terminations []v1alpha1.RecentTermination
	for _, r := range status.RecentTerminations {
		if stillCounts(status, "", r.At.Time, period, now) {
			terminations = append(terminations, r)
		}
	}
	status.RecentRemovals, status.RecentTerminations = removals, terminations
}

// stillCounts reports whether an event at a time may count for a later Plan. pool is the NodePool that was removed;
// empty for a termination.
func stillCounts(status *v1alpha1.NodeSyncStatus, pool types.UID, at time.Time, period time.Duration, now time.Time) bool {
	if now.Sub(at) < period || status.Held != nil && period > 0 {
		return true
	}
	return slices.ContainsFunc(status.Removals, func(open v1alpha1.Removal) bool {
		pending := !open.Started() && open.RecordedAt.Sub(at) < period
		return open.Kind == render.NodePool && (open.UID == pool || pending)
	})
}
