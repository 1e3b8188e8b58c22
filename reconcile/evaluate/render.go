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

// Render makes the Set. Where a change of the charts is not made, definitions that
// need it wait for it.
func (s *DesiredStep) Render(ctx context.Context) error {
	if err := s.withheld(s.makeSet(ctx)); err != nil {
		return err
	}
	s.rescue()
	return nil
}

// rescue has NodePools name a copy of a class that was deleted while nodes are on it.
func (s *DesiredStep) rescue() {
	if s.Sync.Spec.Removal.Rescue && s.Set != nil {
		s.Set = s.Memory.rescuer.Rescued(s.Set, s.Live, plan.OwnerOf(s.Sync.Namespace, s.Sync.Name))
	}
}

// makeSet renders, or takes the last Set where none of its inputs changed.
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
	if err := s.slowLately(key); err != nil {
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
	return nil
}

// renderKey is what a Set is rendered by.
func (s *DesiredStep) renderKey() renderKey {
	return renderKey{schema: s.SchemaIdentity, older: s.Older, path: s.Sync.Spec.Path}
}

// renderAll renders for the version in Git, and for one in force that is older.
func (s *DesiredStep) renderAll(ctx context.Context) (*render.Set, error) {
	if s.Older != nil {
		if _, err := render.Render(ctx, *s.Snapshot, s.Sync.Spec.Path, s.Karpenter, s.Older, render.WithConfinement(s.Confine)); err != nil {
			return nil, err
		}
	}
	return render.Render(ctx, *s.Snapshot, s.Sync.Spec.Path, s.Karpenter, s.Schema, render.WithCache(&s.Memory.rendered), render.WithInputs(s.Files.Inputs()), render.WithConfinement(s.Confine))
}

// slow is a render that took too long, and when.
type slow struct {
	attempt slowAttempt
	at      time.Time
	err     error
}

// slowAttempt is what a render was made of: another one is made at once.
type slowAttempt struct {
	commit, attempt string
	key             renderKey
}

// slowLasts is how long a commit that took too long is not rendered again.
const slowLasts = 10 * time.Minute

func (s *DesiredStep) attemptAt(key renderKey) slowAttempt {
	return slowAttempt{commit: s.Snapshot.Revision, attempt: s.Attempt, key: key}
}

// slowLately is why what a render is made of is not tried: it took too long.
func (s *DesiredStep) slowLately(key renderKey) error {
	last := s.Memory.slow
	if last.err == nil || last.attempt != s.attemptAt(key) || finding.Due(s.Now, last.at, slowLasts) {
		return nil
	}
	s.WakeBy(last.at.Add(slowLasts))
	return last.err
}

// readKey is what the files of a commit are read for, whatever is made of them.
func (s *DesiredStep) readKey() renderKey { return renderKey{path: s.Sync.Spec.Path} }

// tooSlow remembers a render that took too long. Other errors it leaves as they are.
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

// inputsUnchanged reports whether a render would read what the last one has read.
// The files of one commit need no look.
func (s *DesiredStep) inputsUnchanged(last *render.Set) (bool, error) {
	if last.Commit != "" && last.Commit == s.Snapshot.Commit {
		return true, nil
	}
	return s.Memory.rendered.Unchanged(last, *s.Snapshot)
}
