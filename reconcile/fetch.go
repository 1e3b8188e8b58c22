package reconcile

import (
	"context"
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// Source fetches revisions.
type Source interface {
	Fetch(ctx context.Context, req source.Request) (*render.Snapshot, error)
	// Forget drops what is stored for a NodeSync that is gone.
	Forget(key string) error
}

// fetch takes the newest revision, or the one at hand where none is due.
func (p *pass) fetch(ctx context.Context) error {
	requested, asked := meta.ReconcileAnnotationValue(p.sync.GetAnnotations())
	if asked {
		// Handled also where the fetch fails: whoever asked waits for an answer.
		p.sync.Status.SetLastHandledReconcileRequest(requested)
	}
	key := fetchKey{generation: p.sync.Generation, requested: requested}
	m := p.memory
	if key == m.fetchedFor && m.failure != nil && p.now.Before(m.failedAt.Add(p.retryInterval())) {
		return p.withoutFetch(m.failure)
	}
	if key == m.fetchedFor && m.failure == nil && m.snapshot != nil && p.now.Before(m.fetchedAt.Add(p.sync.Spec.Interval.Duration)) {
		p.snapshot = m.snapshot
		p.wakeAt(m.fetchedAt.Add(p.sync.Spec.Interval.Duration))
		p.attempted()
		return nil
	}
	snapshot, err := p.fetchNow(ctx)
	m.fetchedFor = key
	if err != nil {
		m.failure, m.failedAt = err, p.now
		return p.withoutFetch(err)
	}
	m.failure, m.snapshot, m.snapshotOf, m.fetchedAt = nil, snapshot, p.sync.Generation, p.now
	p.snapshot = snapshot
	p.wakeAt(p.now.Add(p.sync.Spec.Interval.Duration))
	p.attempted()
	return nil
}

// withoutFetch goes on with the last Snapshot of this very spec: it is the newest
// that is known, so that drift is put right and removals go on while a Git host
// is away. Where there is none, the pass ends.
func (p *pass) withoutFetch(err error) error {
	m := p.memory
	p.wakeAt(m.failedAt.Add(p.retryInterval()))
	if m.snapshot == nil || m.snapshotOf != p.sync.Generation {
		return err
	}
	p.snapshot, p.unfetched = m.snapshot, err
	p.attempted()
	return nil
}

func (p *pass) fetchNow(ctx context.Context) (*render.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	git := p.sync.Spec.Source.Git
	var credentials source.Credentials
	if git.SecretRef != nil {
		secret, err := p.secret(ctx, git.SecretRef.Name)
		if err != nil {
			return nil, err
		}
		if credentials, err = source.CredentialsFromSecret(secret.Data); err != nil {
			return nil, fmt.Errorf("read secret %s: %w", git.SecretRef.Name, err)
		}
	}
	return p.Source.Fetch(ctx, source.Request{
		Key:         p.name().String(),
		URL:         git.URL,
		Ref:         git.Ref,
		Credentials: credentials,
	})
}

// attempted notes the revision that this pass is about.
func (p *pass) attempted() {
	p.sync.Status.LastAttemptedRevision = p.snapshot.Revision
}

// secret reads a Secret of the NodeSync's namespace, uncached: Secrets are not
// watched, so that they are never kept.
func (p *pass) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: p.sync.Namespace, Name: name}
	if err := p.Uncached.Get(ctx, key, secret); err != nil {
		err = fmt.Errorf("read secret %s, which the NodeSync names: %w", name, err)
		return nil, &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonSourceFailed, Err: err}
	}
	return secret, nil
}
