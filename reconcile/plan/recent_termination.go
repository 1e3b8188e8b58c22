package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// terminates is how many nodes Karpenter may terminate by a Change without a replacement.
func (c *Change) terminates() int {
	if c.Effect == EffectDrain {
		return len(c.consolidated) + c.Nodes
	}
	return len(c.consolidated) + len(c.expiring)
}

// RecordTerminations returns status.recentTerminations with the Changes that are about to be written. A Change that is written
// again, because it failed, has one record.
func RecordTerminations(recent []v1alpha1.RecentTermination, revision string, due []Change, now metav1.Time) []v1alpha1.RecentTermination {
	recent = slices.Clone(recent)
	for i := range due {
		c := &due[i]
		if c.Live == nil || !weighs(c) || c.terminates() == 0 {
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

// recentTerminations is how many nodes Karpenter has terminated, or may still terminate, by changes that earlier commits have
// made within a span, by the name of their NodePool. Those that are terminating now, and those that the removal of their NodePool
// drains, count there.
func (m *maker) recentTerminations(s span) map[string]int {
	if m.policy.Guard.GetRemovalPeriod() <= 0 {
		return nil
	}
	let, names := map[types.UID]int{}, map[types.UID]string{}
	for _, r := range m.live.RecentTerminations {
		if s.has(r.At.Time) && !m.writtenAgain(r) {
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

// writtenAgain reports whether the Plan has the very Change of a record, which was not written: it counts by itself.
func (m *maker) writtenAgain(r v1alpha1.RecentTermination) bool {
	change, ok := m.changes[poolRefOf(r.Name)]
	return ok && r.Revision == m.revision && change.terminates() > 0
}

// wasHeld reports whether a Change was held before: what it was held for counts until a person decides.
func (m *maker) wasHeld(c *Change) bool {
	return m.live.Held != nil && slices.ContainsFunc(m.live.Held.Entries, func(e v1alpha1.ApprovedEntry) bool {
		return c.Ref == render.Ref{Kind: e.Kind, Name: e.Name}
	})
}

// ForgetRecent drops from a status the removals and terminations that no later Plan counts: they are older than the period, no
// removal is open or pending for which they count, and no change is held.
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

// stillCounts reports whether what happened at a time may count for a later Plan. pool is the NodePool whose removal it is; empty
// if it is none.
func stillCounts(status *v1alpha1.NodeSyncStatus, pool types.UID, at time.Time, period time.Duration, now time.Time) bool {
	if now.Sub(at) < period || status.Held != nil && period > 0 {
		return true
	}
	return slices.ContainsFunc(status.Removals, func(open v1alpha1.Removal) bool {
		pending := !open.Begun() && open.RecordedAt.Sub(at) < period
		return open.Kind == render.NodePool && (open.UID == pool || pending)
	})
}
