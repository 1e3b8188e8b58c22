package evaluate

import (
	"context"
	"errors"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Render renders the Set. If a change of the charts is not made, definitions that need it wait for it.
func (s *DesiredStep) Render(ctx context.Context) error {
	if err := s.withheld(s.makeSet(ctx)); err != nil {
		return err
	}
	s.rescue()
	return nil
}

// rescue points NodePools at a copy of their class if that was deleted while nodes use it.
func (s *DesiredStep) rescue() {
	if s.Sync.Spec.Removal.Rescue && s.Set != nil {
		s.Set = s.Memory.rescuer.Rescued(s.Set, s.Live, plan.OwnerOf(s.Sync.Namespace, s.Sync.Name))
	}
}

// makeSet renders, or returns the last Set if none of its inputs has changed.
func (s *DesiredStep) makeSet(ctx context.Context) error {
	key := s.renderKey()
	if last := s.Memory.Set; last != nil && s.Memory.renderedBy == key {
		unchanged, err := s.inputsUnchanged(last)
		if err != nil {
			return s.tooSlow(key, err)
		}
		if unchanged {
			set := *last
			set.Revision, set.Commit = s.Snapshot.Revision, s.Snapshot.Commit
			s.Set, s.Memory.Set = &set, &set
			return nil
		}
	}
	if err := s.slowRecently(key); err != nil {
		return err
	}
	set, err := s.renderAll(ctx)
	if err != nil {
		return s.tooSlow(key, err)
	}
	ctrl.LoggerFrom(ctx).V(1).Info("rendered", "revision", s.Snapshot.Revision, "objects", len(set.Objects))
	for _, warning := range set.Warnings {
		s.Warn(v1alpha1.ReasonWarning, warning)
	}
	s.Set, s.Memory.Set = set, set
	s.Memory.renderedBy = key
	off, err := s.SwitchedOff(ctx)
	for _, warning := range off {
		s.Warn(v1alpha1.ReasonWarning, warning)
	}
	return err
}

// renderKey returns what a Set is rendered with.
func (s *DesiredStep) renderKey() renderKey {
	return renderKey{schema: s.SchemaIdentity, older: s.Older, path: s.Sync.Spec.Path}
}

// renderAll renders for the version in Git, and for an older one in force.
func (s *DesiredStep) renderAll(ctx context.Context) (*render.Set, error) {
	if s.Older != nil {
		if _, err := render.Render(ctx, *s.Snapshot, s.Sync.Spec.Path, s.Karpenter, s.Older, render.WithConfinement(s.Confine)); err != nil {
			return nil, err
		}
	}
	return render.Render(ctx, *s.Snapshot, s.Sync.Spec.Path, s.Karpenter, s.Schema, render.WithCache(&s.Memory.rendered),
		render.WithInputs(s.Files.Inputs()), render.WithConfinement(s.Confine))
}

// slow is a render that took too long, and when.
type slow struct {
	attempt slowAttempt
	at      time.Time
	err     error
}

// slowAttempt is the inputs of a render: other inputs are rendered at once.
type slowAttempt struct {
	commit, attempt string
	key             renderKey
}

// slowLasts is how long a commit whose render took too long is not rendered again.
const slowLasts = 10 * time.Minute

func (s *DesiredStep) attemptAt(key renderKey) slowAttempt {
	return slowAttempt{commit: s.Snapshot.Revision, attempt: s.Attempt, key: key}
}

// slowRecently returns why the inputs of a render are not tried: it took too long recently.
func (s *DesiredStep) slowRecently(key renderKey) error {
	last := s.Memory.slow
	if last.err == nil || last.attempt != s.attemptAt(key) || finding.Due(s.Now, last.at, slowLasts) {
		return nil
	}
	s.WakeBy(last.at.Add(slowLasts))
	return last.err
}

// readKey is the key for reading the files of a commit, independently of the schema and charts.
func (s *DesiredStep) readKey() renderKey { return renderKey{path: s.Sync.Spec.Path} }

// tooSlow remembers a render that took too long. It returns other errors unchanged.
func (s *DesiredStep) tooSlow(key renderKey, err error) error {
	var late *render.SlowError
	if !errors.As(err, &late) {
		return err
	}
	if late.Reading {
		key, err = s.readKey(), late
	}
	s.Memory.slow = slow{attempt: s.attemptAt(key), at: s.Now, err: err}
	s.WakeBy(s.Now.Add(slowLasts))
	return err
}

// inputsUnchanged reports whether a render would read the same files as the last one. The files of the same commit are
// not compared.
func (s *DesiredStep) inputsUnchanged(last *render.Set) (bool, error) {
	if last.Commit != "" && last.Commit == s.Snapshot.Commit {
		return true, nil
	}
	return s.Memory.rendered.Unchanged(last, *s.Snapshot)
}
