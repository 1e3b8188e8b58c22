package fetch

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// Fetch takes the newest revision, or the one at hand where none is due.
func (s *Step) Fetch(ctx context.Context) (Fetched, error) {
	requested, asked := meta.ReconcileAnnotationValue(s.Sync.GetAnnotations())
	if asked {
		// Handled also where the fetch fails: the user who asked waits for an answer.
		s.Sync.Status.SetLastHandledReconcileRequest(requested)
	}
	key := Attempt{generation: s.Sync.Generation, requested: requested}
	m, news := s.Memory, time.Time{}
	if due := s.fetchDue(key); !s.Now.Before(due) {
		snapshot, began, err := s.fetchNow(ctx, due)
		m.fetchedFor, m.fetchedAt, m.failure = key, began, err
		if snapshot != nil {
			if m.snapshot == nil || m.snapshot.Commit != snapshot.Commit {
				news = began
			}
			m.snapshot, m.snapshotOf, m.snapshotAt = snapshot, s.Sync.Generation, began
		}
	}
	s.WakeBy(s.fetchDue(key))
	found := Fetched{Snapshot: m.snapshot, Unfetched: m.failure, News: news}
	if m.failure != nil && (m.snapshot == nil || m.snapshotOf != s.Sync.Generation) {
		return Fetched{}, m.failure
	}
	s.Sync.Status.LastAttemptedRevision = found.Snapshot.Revision
	found.Snapshot = s.timed(ctx, found.Snapshot)
	return found, nil
}

// timed is a Snapshot for the reads of this pass.
func (s *Step) timed(ctx context.Context, snapshot *render.Snapshot) *render.Snapshot {
	within := snapshot.Within(ctx, s.Sync.Spec.Path, render.Reading)
	return &within
}

// fetchDue is when a fetch is due. What was fetched since is new enough, for
// whichever NodeSync that was: so those on one repository share each fetch, and
// stay in phase.
func (s *Step) fetchDue(key Attempt) time.Time {
	m := s.Memory
	if m.fetchedAt.IsZero() || m.snapshot == nil && m.failure == nil {
		// The first, or one of which the store is gone. The API server's clock may
		// be ahead of ours.
		return earlier(s.Sync.CreationTimestamp.Time, s.Now)
	}
	if key != m.fetchedFor || m.fetchedAt.After(s.Now.Add(s.Sync.GetTimeout())) {
		return s.Now // it is another, or the clock was put back since
	}
	if s.Pushed.After(m.fetchedAt) {
		return s.Pushed
	}
	if m.wanted.After(m.fetchedAt) {
		return m.wanted
	}
	if m.failure != nil {
		return m.fetchedAt.Add(s.Sync.GetRetryInterval())
	}
	return m.fetchedAt.Add(s.Sync.Spec.Interval.Duration)
}

// ReadSince says whether Git was read since a time; if not, why, and when the next pass is
// wanted, which reads it: zero where the last read has failed, and the next is a retry.
func (s *Step) ReadSince(at time.Time) (read bool, why string, wake time.Time) {
	m := s.Memory
	switch {
	case m.snapshot != nil && !m.snapshotAt.Before(at):
		return true, "", time.Time{}
	case m.fetchedAt.Before(at):
		m.wanted = at
		return false, "", s.Now
	case m.failure != nil:
		why = m.failure.Error()
	}
	return false, why, time.Time{}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// fetchNow wants an answer that is as new as the time at which it was due.
func (s *Step) fetchNow(ctx context.Context, due time.Time) (*render.Snapshot, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Sync.GetTimeout())
	defer cancel()
	request, err := s.request(ctx)
	if err != nil {
		return nil, s.Now, err
	}
	request.NotBefore = due
	return s.Source.Fetch(ctx, request)
}

// request is what is asked of the source.
func (s *Step) request(ctx context.Context) (source.Request, error) {
	if ref := s.Sync.SourceRef(); ref != nil {
		artifact, err := s.artifact(ctx, *ref)
		return source.Request{Key: s.name().String(), Artifact: artifact}, err
	}
	s.Sync.Status.Artifacts = nil
	git := s.Sync.Spec.Source.Git
	request := source.Request{Key: s.name().String(), URL: git.URL, Ref: git.Ref}
	if git.SecretRef == nil {
		return request, nil
	}
	secret, err := s.secret(ctx, git.SecretRef.Name)
	if err != nil {
		return source.Request{}, err
	}
	if err := s.Grants.Check(secret, grant.Use{NodeSync: s.Sync.Name, Address: git.URL}); err != nil {
		return source.Request{}, err
	}
	if request.Credentials, err = source.CredentialsFromSecret(secret.Data); err != nil {
		return source.Request{}, fmt.Errorf("read secret %s: %w", git.SecretRef.Name, err)
	}
	for _, secret := range request.Credentials.Secrets() {
		s.HideCredential(secret)
	}
	return request, nil
}

// secret reads the Secret that the source names.
func (s *Step) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := s.Secret(ctx, name)
	if err != nil {
		err = fmt.Errorf("read secret %s, which the NodeSync names: %w", name, err)
		return nil, fault.SourceFailed(err)
	}
	return secret, nil
}
