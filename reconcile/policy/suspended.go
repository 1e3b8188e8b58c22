package policy

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

// Answer is what a pass over a NodeSync does that is suspended or only loses its nodes: it lists what the
// NodeSync has in Git where another one has asked, and wakes those that wait to know. An entry may have
// moved from there to here, and such a NodeSync renders nothing for itself. Nothing is
// written.
func (s *Step) Answer(ctx context.Context) {
	notBefore, asked := s.Registry.asked(s.name(), s.Sync.UID)
	if !asked {
		return
	}
	var waiting []types.NamespacedName
	if set, began, err := s.entries(ctx, notBefore); err != nil {
		waiting = s.Registry.fail(s.name(), s.Sync.UID, fault.Classify(err).Reason, s.Now)
	} else {
		waiting = s.Registry.Remember(s.name(), s.Sync.UID, set, s.Sync.Generation, began)
	}
	for _, name := range waiting {
		s.Look(name)
	}
}

// entries are those of its newest revision. Their schema does not matter: only their names
// do. A folder that is missing or empty has none.
func (s *Step) entries(ctx context.Context, notBefore time.Time) (*render.Set, time.Time, error) {
	snapshot, began, err := s.Read(ctx, notBefore)
	if err != nil {
		return nil, began, err
	}
	set := &render.Set{Revision: snapshot.Revision, Commit: snapshot.Commit}
	karpenter, err := render.ReadKarpenter(*snapshot, s.Sync.Spec.Path)
	if err == nil {
		var rendered *render.Set
		if rendered, err = render.Render(ctx, *snapshot, s.Sync.Spec.Path, karpenter, nil, render.WithConfinement(s.Confine)); err == nil {
			set = rendered
		}
	}
	if errors.As(err, new(*render.EmptyError)) || errors.As(err, new(*render.MissingError)) {
		err = nil
	}
	return set, began, err
}
