package removal

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/inventory"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// recallApplied reads the record of what was applied, once in the life of the
// process: from then on it is what this process has written.
func (s *Step) recallApplied(ctx context.Context) error {
	if s.Memory.applied != nil {
		return nil
	}
	store, err := inventory.Load(ctx, s.Uncached, s.Sync)
	if err != nil {
		return err
	}
	s.Memory.applied = store
	return nil
}

// RecordApplied records what of the NodeSync lives, which after the apply is what
// was applied. An object that this pass has created and that vanishes before the
// next one would be known to nobody else.
func (s *Step) RecordApplied(ctx context.Context) (Result, error) {
	return Result{}, s.saveApplied(ctx, nil)
}

// forgetGone takes what is verified gone out of the record.
func (s *Step) forgetGone(ctx context.Context, removals []v1alpha1.Removal) error {
	gone := map[types.UID]bool{}
	for _, r := range removals {
		if r.Phase == v1alpha1.RemovalGone {
			gone[r.UID] = true
		}
	}
	if len(gone) == 0 || s.Memory.applied == nil || !s.Memory.applied.Exists() {
		return nil
	}
	return s.saveApplied(ctx, gone)
}

// saveApplied writes the record where it changes. What another writer has made of
// it is read by the next pass.
func (s *Step) saveApplied(ctx context.Context, gone map[types.UID]bool) error {
	store, owned := s.Memory.applied, s.owned()
	relabelled, err := s.relabelled(ctx)
	if err != nil {
		return err
	}
	maps.Copy(owned, relabelled)
	if err := store.Save(ctx, s.Client, s.Sync, inventory.Next(store.Record, owned, s.Live.Objects, gone)); err != nil {
		s.Memory.applied = nil
		return err
	}
	return nil
}

// Recorded are the objects that this NodeSync has applied, as far as its record was read; nil
// before. The map is read only.
func (s *Step) Recorded() map[render.Ref]types.UID {
	if s.Memory.applied == nil {
		return nil
	}
	return s.Memory.applied.Record.Objects
}

// bears says whether an object has an ownership label, without a copy of all its labels.
func bears(object *unstructured.Unstructured, label string) bool {
	has, _, _ := unstructured.NestedString(object.Object, "metadata", "labels", v1alpha1.OwnerLabel)
	return has == label
}

// owned are the live objects that this NodeSync has applied. Of one that is
// recorded the label says whether it still is; to read managedFields costs more.
func (s *Step) owned() map[render.Ref]types.UID {
	owner := s.owner()
	label, _ := owner.Label()
	recorded := s.Memory.applied.Record.Objects
	owned := make(map[render.Ref]types.UID, len(recorded))
	for ref, object := range s.Live.Objects {
		if !bears(object, label) {
			continue
		}
		if uid := object.GetUID(); recorded[ref] == uid || owner.Owns(object) && plan.Applied(object) {
			owned[ref] = uid
		}
	}
	return owned
}
