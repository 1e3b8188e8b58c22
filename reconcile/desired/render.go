package desired

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/render"
)

// Render makes the Set. Where a change of the charts is not made, definitions that
// need it wait for it.
func (s *Step) Render(ctx context.Context) error {
	return s.withheld(s.makeSet(ctx))
}

// makeSet renders, or takes the last Set where none of its inputs changed.
func (s *Step) makeSet(ctx context.Context) error {
	key := renderKey{schema: s.SchemaIdentity, older: s.Older, path: s.Sync.Spec.Path}
	if last := s.Memory.Set; last != nil && s.Memory.renderedBy == key {
		unchanged, err := s.inputsUnchanged(last)
		if err != nil {
			return err
		}
		if unchanged {
			set := *last
			set.Revision, set.Commit = s.Snapshot.Revision, s.Snapshot.Commit
			s.Set, s.Memory.Set = &set, &set
			return nil
		}
	}
	if s.Older != nil {
		if _, err := render.Render(ctx, *s.Snapshot, s.Sync.Spec.Path, s.Karpenter, s.Older, render.WithConfinement(s.Confine)); err != nil {
			return err
		}
	}
	set, err := render.Render(ctx, *s.Snapshot, s.Sync.Spec.Path, s.Karpenter, s.Schema, render.WithCache(&s.Memory.rendered), render.WithValues(s.Shared), render.WithInputs(s.Files.Inputs()), render.WithConfinement(s.Confine))
	if err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).V(1).Info("rendered", "revision", s.Snapshot.Revision, "objects", len(set.Objects))
	for _, warning := range set.Warnings {
		s.Warn("Warning", warning)
	}
	s.Set, s.Memory.Set = set, set
	s.Memory.renderedBy = key
	return nil
}

// inputsUnchanged says whether a render would read what the last one has read.
// The files of one commit need no look.
func (s *Step) inputsUnchanged(last *render.Set) (bool, error) {
	if last.Commit != "" && last.Commit == s.Snapshot.Commit {
		return true, nil
	}
	return last.Inputs.Unchanged(*s.Snapshot)
}
