package removal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Appliers are the other clients that apply something of a NodeSync that is deleted with its nodes, each with what it
// applies: they would create it again. They are found as `plumbline teardown` finds them.
func (s *Step) Appliers() []string {
	if s.Sync.DeletionTimestamp.IsZero() || !s.Sync.Drains() {
		return nil
	}
	applied := map[string][]string{}
	note := func(name string, object metav1.Object) {
		for _, by := range owners.All(object) {
			applied[by.String()] = append(applied[by.String()], name)
		}
	}
	note("NodeSync/"+s.Sync.Name, s.Sync)
	var found []string
	for ref, object := range s.Live.Objects {
		if s.createdAgain(ref, object) {
			found = append(found, s.again(ref, object))
		} else if s.leaves(object) {
			note(ref.String(), object)
		}
	}
	for by, names := range applied {
		slices.Sort(names)
		found = append(found, by+" applies "+finding.Some(names))
	}
	slices.Sort(found)
	return found
}

// leaves says whether an object is the NodeSync's, or one whose removal is recorded.
func (s *Step) leaves(object metav1.Object) bool {
	return s.owner().Owns(object) ||
		slices.ContainsFunc(s.Sync.Status.Removals, func(r v1alpha1.Removal) bool { return r.UID == object.GetUID() })
}

// createdAgain says whether another client has created a NodePool of the NodeSync again since that was deleted. One that
// stood before is not meant, nor one of another NodeSync.
func (s *Step) createdAgain(ref render.Ref, object *plan.Object) bool {
	store := s.Memory.applied
	if ref.Kind != render.NodePool || store == nil || !store.Record.Pools[ref.Name] || s.leaves(object) {
		return false
	}
	_, owned := plan.OwnerNamed(object)
	return !owned && !object.GetCreationTimestamp().Time.Before(s.Sync.DeletionTimestamp.Time)
}

// again says who has created a NodePool again.
func (s *Step) again(ref render.Ref, object metav1.Object) string {
	by := "another client"
	if all := owners.All(object); len(all) > 0 {
		by = all[0].String()
	} else if manager := owners.Of(object).Manager; manager != "" {
		by += " (field manager " + manager + ")"
	}
	return fmt.Sprintf("%s was created again by %s", ref, by)
}

// seeAgain waits for a NodePool that was created again, and has nodes: the drain has not ended what it was to end. One
// without a node is only named, in what it returns.
func (s *Step) seeAgain(live plan.Live) (named []string, waits bool) {
	for _, ref := range slices.SortedFunc(maps.Keys(live.Objects), func(a, b render.Ref) int { return cmp.Compare(a.Name, b.Name) }) {
		object := live.Objects[ref]
		if !s.createdAgain(ref, object) {
			continue
		}
		words := s.again(ref, object)
		if slices.ContainsFunc(live.NodeClaims, func(c plan.NodeClaim) bool { return c.PoolUID == object.GetUID() }) {
			s.WaitFor(ref.String(), words+" while this drain went on, and has nodes: take it out there and delete it, or set onDelete: Orphan to leave it",
				object.GetCreationTimestamp().Time, s.Sync.GetStallAfter())
			s.WakeBy(s.Now.Add(s.AskEvery))
			return nil, true
		}
		named = append(named, words)
	}
	return named, false
}
