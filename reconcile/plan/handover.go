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

// Kept is an entry that has left the repository and is not removed for now,
// because another NodeSync of the cluster has it, or may have it.
type Kept struct {
	Ref render.Ref
	UID types.UID
	// By is the NodeSync, as namespace/name.
	By string
	// HandedOver says that the NodeSync has the entry: the object becomes its, by its
	// own apply. Otherwise it is not known yet what that NodeSync has.
	HandedOver bool
	// Message says what is waited for, and what to do.
	Message string
	// Since is since when a NodeSync is waited for of which nobody knows what it has; zero
	// where that began now.
	Since time.Time
	// MovesTo are the near-equal entries of Git that take its place, for a NodePool that waits for another NodeSync.
	MovesTo []string
}

// findMovesOfKept finds what takes the place of NodePools that wait for other NodeSyncs: once these are known, the
// cluster has it, and it is no longer among what arrives.
func (m *maker) findMovesOfKept(kept []Kept) {
	var waiting []Candidate
	for _, k := range kept {
		if k.Ref.Kind == render.NodePool && !k.HandedOver {
			record, _ := m.live.removal(k.UID)
			waiting = append(waiting, Candidate{Ref: k.Ref, UID: k.UID, record: m.withMoves(k.UID, record)})
		}
	}
	m.findMoves(waiting)
	for _, c := range waiting {
		i := slices.IndexFunc(kept, func(k Kept) bool { return k.UID == c.UID })
		kept[i].MovesTo = c.MovesTo
	}
}

// withMoves is the record of a removal, with what an earlier Plan has found to take the place of an entry that waited.
func (m *maker) withMoves(uid types.UID, record v1alpha1.Removal) v1alpha1.Removal {
	if record.UID == "" {
		record.MovesTo = m.policy.Moves[uid]
	}
	return record
}

// keep finds the entries that another NodeSync keeps from being removed, in the
// order of candidates.
func (m *maker) keep() []Kept {
	var found []Kept
	for ref, object := range m.live.Objects {
		if m.inSet[ref] || terminating(object) || !m.owns(object) {
			continue
		}
		record, _ := m.live.removal(object.GetUID())
		if kept, ok := m.keptByOther(ref, object.GetUID(), record); ok {
			found = append(found, kept)
			m.kept[kept.UID] = true
		}
	}
	slices.SortFunc(found, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(stageIndex(b.Ref), stageIndex(a.Ref)), cmp.Compare(a.Ref.Name, b.Ref.Name))
	})
	return found
}

// keptByOther says whether an entry stays because of another NodeSync. One of which
// nobody knows what it has is waited for, unless a person has released the entry. A removal that
// has ended NodeClaims already was decided on when all others were known: it pauses only where
// nothing of another is known at all, as after a restart of the daemon. One that fails is waited for as well, also where our NodeSync is deleted with its nodes:
// after a restart of the daemon a Git host that is away for a moment tells of no entry.
func (m *maker) keptByOther(ref render.Ref, uid types.UID, record v1alpha1.Removal) (Kept, bool) {
	if other, wanted := m.wantedBy(ref); wanted {
		k := Kept{Ref: ref, UID: uid, By: other.String(), HandedOver: true}
		k.Message = fmt.Sprintf("%s is in the Git of NodeSync %s and is handed over, with its nodes", ref, other.Owner)
		if other.Suspended {
			k.Message += ": resume that NodeSync"
		}
		return k, true
	}
	other, waits := m.unheard()
	if record.Phase != "" && m.begun(record) {
		other, waits = m.unread()
	}
	if waits && !m.policy.Released[uid] {
		why := "has left Git"
		switch {
		case m.policy.Keeps:
			why = "is drained"
		case m.policy.Deleting:
			why = "goes with its NodeSync"
		}
		message := fmt.Sprintf("%s %s, and another NodeSync may have it: waiting for %s; to remove %s without that, %s",
			ref, why, other.waiting(), ref, m.policy.howToRelease(uid))
		return Kept{Ref: ref, UID: uid, By: other.String(), Message: message, Since: other.Since}, true
	}
	return Kept{}, false
}

// passedOn says whether a recorded removal is of an object that is another
// NodeSync's by now, or becomes that.
func (m *maker) passedOn(r v1alpha1.Removal) bool {
	object := m.live.object(refOf(r))
	if object == nil || object.GetUID() != r.UID || terminating(object) {
		return false
	}
	if _, wanted := m.wantedBy(refOf(r)); wanted && m.kept[r.UID] {
		return true
	}
	owner, _ := m.ownership(object)
	return owner == theirs
}
