package plan

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// approval is of an entry what does not change: which object, and what is to become of it.
type approval struct {
	kind, name string
	uid        types.UID
	definition string
	movesTo    string
	lastPool   bool
	orphan     bool
}

func object(e v1alpha1.ApprovedEntry) approval {
	return approval{kind: e.Kind, name: e.Name, uid: e.UID, definition: e.Definition, movesTo: strings.Join(e.MovesTo, ","), lastPool: e.LastPool, orphan: e.Orphan}
}

// approve finds which of what people have approved counts, and which of the candidates it covers.
func (m *maker) approve(candidates []Candidate) {
	if len(m.policy.Approved) == 0 {
		return
	}
	terms := m.terms()
	now := map[approval]int32{}
	note := func(e v1alpha1.ApprovedEntry) { now[object(e)] = e.Nodes }
	for ref := range m.changes {
		change := m.changes[ref]
		note(change.entryOf())
	}
	for i := range candidates {
		note(candidates[i].entryOf())
	}
	for _, a := range m.policy.Approved {
		if a.WeighedBy == terms && !outgrown(a, now) {
			m.inForce = append(m.inForce, a)
		}
	}
	for i := range candidates {
		candidates[i].approved = m.approvedAs(candidates[i].entryOf())
		candidates[i].Approved = candidates[i].approved.digest
	}
}

// approved is for what people have approved an object: the reasons and the pods that they were shown.
type approved struct {
	// digest is that of what was approved first; empty if nothing was.
	digest  string
	reasons []string
	pods    []v1alpha1.PendingPods
}

// covers reports whether people have approved an object that is held for a reason.
func (a approved) covers(reason string) bool { return slices.Contains(a.reasons, reason) }

// coversPods reports whether people were shown that these pods, or more of the same workloads, would be pending.
func (a approved) coversPods(pods []v1alpha1.PendingPods) bool {
	return a.covers(ReasonUnschedulablePods) && !slices.ContainsFunc(pods, func(p v1alpha1.PendingPods) bool {
		return !slices.ContainsFunc(a.pods, func(shown v1alpha1.PendingPods) bool { return shown.Workload == p.Workload && shown.Pods >= p.Pods })
	})
}

// outgrown says whether what is left to do of what was approved disrupts more nodes by now than is
// tolerated of all of it: a few more in each of many pools would be many.
func outgrown(a v1alpha1.ApprovedPlan, now map[approval]int32) bool {
	var approved, current int32
	for _, e := range a.Entries {
		if nodes, pending := now[object(e)]; pending {
			approved, current = approved+e.Nodes, current+nodes
		}
	}
	return current > tolerated(approved)
}

// approvedAs is for what people have approved an object, by all of their approvals that are in force.
func (m *maker) approvedAs(want v1alpha1.ApprovedEntry) (found approved) {
	for _, a := range m.inForce {
		for _, e := range a.Entries {
			if object(e) == object(want) {
				found.digest = cmp.Or(found.digest, a.Digest)
				found.reasons, found.pods = append(found.reasons, e.Reasons...), append(found.pods, e.UnschedulablePods...)
			}
		}
	}
	return found
}

// approved reports whether people have approved a Change that is held for a reason.
func (m *maker) approved(c *Change, reason string) bool {
	return len(m.inForce) > 0 && m.approvedAs(c.entryOf()).covers(reason)
}

// approvedBefore says whether a policy may not hold an object any more: its author knew that it
// does. It may have been approved for the guard before.
func (m *maker) approvedBefore(policy string, of interface{ entryOf() v1alpha1.ApprovedEntry }) bool {
	if len(m.inForce) == 0 {
		return false
	}
	want := object(of.entryOf())
	return slices.ContainsFunc(m.inForce, func(a v1alpha1.ApprovedPlan) bool {
		return slices.ContainsFunc(a.Entries, func(e v1alpha1.ApprovedEntry) bool { return slices.Contains(e.Policies, policy) && object(e) == want })
	})
}

// LeftOf are of what was approved the entries that the Plan has not done yet. What Git has again,
// or no more, is not among them, nor a removal that has begun: it goes on by itself. Nor is what moves
// elsewhere by now, and all that was approved under other terms: people are asked again.
func (p *Plan) LeftOf(approved []v1alpha1.ApprovedPlan) []v1alpha1.ApprovedPlan {
	pending := map[approval]bool{}
	note := func(e v1alpha1.ApprovedEntry) { pending[object(e)] = true }
	for i := range p.Changes {
		note(p.Changes[i].entryOf())
	}
	for i := range p.Removals {
		note(p.Removals[i].entryOf())
	}
	waits := func(e v1alpha1.ApprovedEntry) bool { // until it is known what another NodeSync has
		return slices.ContainsFunc(p.Kept, func(k Kept) bool {
			return !k.HandedOver && k.UID == e.UID && k.Ref == render.Ref{Kind: e.Kind, Name: e.Name} && e.Definition == ""
		})
	}
	var left []v1alpha1.ApprovedPlan
	for _, a := range approved {
		a.Entries = slices.DeleteFunc(slices.Clone(a.Entries), func(e v1alpha1.ApprovedEntry) bool {
			return !pending[object(e)] && !waits(e)
		})
		if len(a.Entries) > 0 && a.WeighedBy == p.WeighedBy {
			left = append(left, a)
		}
	}
	return left
}
