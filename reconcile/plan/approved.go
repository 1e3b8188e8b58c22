package plan

import (
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
		candidates[i].Approved, _ = m.approvedAs(candidates[i].entryOf())
	}
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

// approvedAs is the digest of what was held as an object was approved first.
func (m *maker) approvedAs(want v1alpha1.ApprovedEntry) (digest string, ok bool) {
	for _, a := range m.inForce {
		if slices.ContainsFunc(a.Entries, func(e v1alpha1.ApprovedEntry) bool { return object(e) == object(want) }) {
			return a.Digest, true
		}
	}
	return "", false
}

// approved says whether a Change is approved.
func (m *maker) approved(c *Change) bool {
	if len(m.inForce) == 0 {
		return false
	}
	_, ok := m.approvedAs(c.entryOf())
	return ok
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
