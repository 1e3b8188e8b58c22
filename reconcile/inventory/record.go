package inventory

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Record is what a NodeSync has applied.
type Record struct {
	// Objects are those that are there, and those that vanished and whose nodes
	// are not verified gone, with the UID of each.
	Objects map[render.Ref]types.UID
	// Pools are the names of all NodePools that were ever in it.
	Pools map[string]bool
	// Revision is the newest one of which anything was written; empty in the record of an
	// older version.
	Revision string
}

// Entry is one object of a Record.
type Entry struct {
	Ref render.Ref
	UID types.UID
}

// Objects are live ones, by name.
type Objects = map[render.Ref]*plan.Object

// Next is the record after a pass. owned are the live objects that are the
// NodeSync's; live are all. An entry stays while its object is missing, unless
// gone says that nothing of it is left, whatever a cache still has. An object that
// lives and is no longer the NodeSync's is not its to take away, and of a kind
// other than NodePool nothing is left once it is missing.
func Next(before Record, owned map[render.Ref]types.UID, live Objects, gone map[types.UID]bool) Record {
	next := Record{Objects: maps.Clone(owned), Pools: maps.Clone(before.Pools), Revision: before.Revision}
	if next.Objects == nil {
		next.Objects = map[render.Ref]types.UID{}
	}
	if next.Pools == nil {
		next.Pools = map[string]bool{}
	}
	for ref, uid := range owned {
		if ref.Kind == render.NodePool {
			next.Pools[ref.Name] = true
		}
		if gone[uid] {
			delete(next.Objects, ref)
		}
	}
	for _, entry := range Vanished(before, live) {
		if _, replaced := owned[entry.Ref]; !replaced && !gone[entry.UID] && entry.Ref.Kind == render.NodePool {
			next.Objects[entry.Ref] = entry.UID
		}
	}
	return next
}

// Vanished are the objects of a record that are not there under their UID, by
// kind and name.
func Vanished(r Record, live Objects) []Entry {
	var vanished []Entry
	for ref, uid := range r.Objects {
		if object := live[ref]; object == nil || object.GetUID() != uid {
			vanished = append(vanished, Entry{Ref: ref, UID: uid})
		}
	}
	slices.SortFunc(vanished, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.Ref.Name, b.Ref.Name))
	})
	return vanished
}

// Equal says whether two records are the same.
func (r Record) Equal(other Record) bool {
	return r.Revision == other.Revision && r.sameObjects(other)
}

// sameObjects says whether two records differ at most in their Revision.
func (r Record) sameObjects(other Record) bool {
	return maps.Equal(r.Objects, other.Objects) && maps.Equal(r.Pools, other.Pools)
}
