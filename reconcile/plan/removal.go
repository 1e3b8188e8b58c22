package plan

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Candidate is one entry that has left the repository and has not begun to go.
type Candidate struct {
	Ref render.Ref
	UID types.UID
	// Revision is the first revision without the entry.
	Revision string
	// Recorded says that the status has it already, as Held.
	Recorded bool
	// Held says that the guard does not let it go; Reason is one word for why,
	// and Message says what releases it. Empty where it may go.
	Held            bool
	Reason, Message string
	// Nodes is the number of NodeClaims of a NodePool: they go with it.
	Nodes int
	// Terminating says that someone has deleted the object already, and that its
	// NodeClaims end with it.
	Terminating bool
	// Vanished says that the object is not there any more.
	Vanished bool

	record v1alpha1.Removal
}

// candidates are the owned objects that the Set lacks, weighed by the guard:
// those that were recorded as Held, oldest first, then the new ones by name.
func (m *maker) candidates(revision string) []Candidate {
	var found []Candidate
	for ref, object := range m.live.Objects {
		if m.inSet[ref] || !m.policy.Owner.Owns(object) || !Applied(object) {
			continue
		}
		c := Candidate{Ref: ref, UID: object.GetUID(), Revision: revision, Terminating: terminating(object)}
		if ref.Kind == render.NodePool {
			c.Nodes = m.nodes()[ref]
		}
		if m.recorded(&c) {
			found = append(found, c)
		}
	}
	for _, v := range m.live.Vanished {
		c := Candidate{Ref: v.Ref, UID: v.UID, Revision: revision, Vanished: true}
		c.Nodes, c.Terminating = m.remains(v)
		if m.recorded(&c) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b Candidate) int {
		return cmp.Or(
			cmp.Compare(boolIndex(!a.Recorded), boolIndex(!b.Recorded)),
			a.record.RecordedAt.Compare(b.record.RecordedAt.Time),
			cmp.Compare(a.Revision, b.Revision),
			// Removal runs the Stages backwards.
			cmp.Compare(stageIndex(b.Ref), stageIndex(a.Ref)),
			cmp.Compare(a.Ref.Name, b.Ref.Name),
		)
	})
	m.weigh(found)
	return found
}

// recorded takes what the status has of a candidate. It is none where its removal
// has begun.
func (m *maker) recorded(c *Candidate) bool {
	record, ok := m.live.removal(c.UID)
	if !ok {
		return true
	}
	c.Recorded, c.Revision, c.record = true, record.Revision, record
	return record.Phase == v1alpha1.RemovalHeld
}

// remains counts the NodeClaims that a vanished pool has left, and says whether
// all of them are ending: those of one that was deleted with --cascade=orphan run
// on.
func (m *maker) remains(v Vanished) (nodes int, ending bool) {
	ending = true
	taken := m.live.object(v.Ref) != nil
	for _, n := range m.live.NodeClaims {
		orphan := n.PoolUID == "" && n.Pool == v.Ref.Name && !taken
		if n.PoolUID == v.UID || orphan {
			nodes++
			ending = ending && n.Deleting
		}
	}
	return nodes, ending
}

func boolIndex(b bool) int {
	if b {
		return 1
	}
	return 0
}

// openPools counts the NodePools that are leaving.
func (m *maker) openPools() int {
	n := 0
	for _, r := range m.live.Removals {
		if r.Kind == render.NodePool && r.Phase != v1alpha1.RemovalHeld && r.Phase != v1alpha1.RemovalGone && !m.back(r) {
			n++
		}
	}
	return n
}

// back says whether Git has an entry again that is not past saving.
func (m *maker) back(r v1alpha1.Removal) bool {
	object := m.live.object(refOf(r))
	return m.inSet[refOf(r)] && (object == nil || object.GetUID() != r.UID || !terminating(object))
}

// poolsInSet says whether Git has a NodePool left that may grow.
func (m *maker) poolsInSet() bool { return len(m.growing) > 0 }
