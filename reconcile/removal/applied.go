package removal

import (
	"cmp"
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

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
	next := inventory.Next(store.Record, owned, s.Live.Objects, gone)
	switch {
	case s.Withheld(ctx, s.Sync, s.Relabelled) == nil:
		next.Revision = cmp.Or(s.Sync.Status.NewestAppliedRevision(), next.Revision)
	case s.Memory.RecordLost(s.owner(), s.Live, s.Set):
		next.Revision = "" // it stays lost until what it lacks is recorded as held
	}
	if err := store.Save(ctx, s.Client, s.Sync, next); err != nil {
		s.Memory.applied = nil
		return err
	}
	return nil
}

// AppliedRevision is the newest revision of which anything was written, by the record; empty
// where that was not read, or lacks it.
func (m *Memory) AppliedRevision() string {
	if m.applied == nil {
		return ""
	}
	return m.applied.Record.Revision
}

// RecordLost says that the record which was read is not the one of what lives; see RecordLost.
func (m *Memory) RecordLost(owner plan.Owner, live plan.Live, set *render.Set) bool {
	return m.applied != nil && RecordLost(m.applied, owner, live, set)
}

// RecordLost says that a record is not the one of what lives: it was deleted, or has lost its
// revision, or was restored to one that is older than a NodePool that left Git. The name of each
// is recorded before it is created or adopted.
func RecordLost(store *inventory.Store, owner plan.Owner, live plan.Live, set *render.Set) bool {
	if store.Lost() {
		return true
	}
	label, _ := owner.Label()
	for ref, object := range live.Objects {
		if ref.Kind == render.NodePool && !store.Record.Pools[ref.Name] && object.OwnerLabel() == label &&
			owner.Owns(object) && plan.Applied(object.Unstructured) && !wants(set, ref) {
			return true
		}
	}
	return false
}

// RecordNames records the names of the NodePools that are about to become the NodeSync's. What
// it cannot write RecordApplied cannot either, which is an error once the definitions are written.
func (s *Step) RecordNames(ctx context.Context) (Result, error) {
	if err := s.recallApplied(ctx); err != nil {
		return Result{}, err
	}
	store := s.Memory.applied
	names := map[string]bool{}
	for i := range s.Plan.Changes {
		if c := &s.Plan.Changes[i]; c.Ref.Kind == render.NodePool && c.Action.Writes() && !store.Record.Pools[c.Ref.Name] {
			names[c.Ref.Name] = true
		}
	}
	if len(names) == 0 {
		return Result{}, nil
	}
	maps.Copy(names, store.Record.Pools)
	next := store.Record
	next.Pools = names
	if err := store.Save(ctx, s.Client, s.Sync, next); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("not recorded before the write", "error", err.Error())
	}
	return Result{}, nil
}

// Recorded are the objects that this NodeSync has applied, as far as its record was read; nil
// before. The map is read only.
func (s *Step) Recorded() map[render.Ref]types.UID {
	if s.Memory.applied == nil {
		return nil
	}
	return s.Memory.applied.Record.Objects
}

// owned are the live objects that this NodeSync has applied. Of one that is
// recorded the label says whether it still is; to read managedFields costs more.
func (s *Step) owned() map[render.Ref]types.UID {
	owner := s.owner()
	label, _ := owner.Label()
	recorded := s.Memory.applied.Record.Objects
	owned := make(map[render.Ref]types.UID, len(recorded))
	for ref, object := range s.Live.Objects {
		if object.OwnerLabel() != label {
			continue
		}
		if uid := object.GetUID(); recorded[ref] == uid || owner.Owns(object) && plan.Applied(object.Unstructured) {
			owned[ref] = uid
		}
	}
	return owned
}
