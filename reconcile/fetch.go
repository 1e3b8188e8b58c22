package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// Source fetches revisions.
type Source interface {
	// Fetch returns the newest revision, and when the fetch began that it came
	// of: it may have been made for another NodeSync.
	Fetch(ctx context.Context, req source.Request) (*render.Snapshot, time.Time, error)
	// Verify says who has signed what the last Snapshot is of.
	Verify(ctx context.Context, req source.Request, want source.Signatures) (source.Verified, error)
	// Since lists the commits that the last Snapshot reaches and the applied one
	// does not, and that changed an input, newest first, where they are known without
	// asking anybody; FindSince asks the host.
	Since(key, applied string, inputs render.Inputs, limit int) (commits []string, known bool)
	FindSince(ctx context.Context, req source.Request, applied string, inputs render.Inputs, limit int) ([]string, error)
	// Order says how the last Snapshot stands to a commit, as far as that is known
	// without asking anybody; FindOrder asks the host.
	Order(key, commit string) source.Order
	FindOrder(ctx context.Context, req source.Request, commit string) (source.Order, error)
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
	if due := p.fetchDue(key); !p.now.Before(due) {
		snapshot, began, err := p.fetchNow(ctx, due)
		m.fetchedFor, m.fetchedAt, m.failure = key, began, err
		if err == nil {
			if m.snapshot == nil || m.snapshot.Commit != snapshot.Commit {
				m.policy.Fetched(began)
			}
			m.snapshot, m.snapshotOf, m.snapshotAt = snapshot, p.sync.Generation, began
		}
	}
	p.WakeBy(p.fetchDue(key))
	if m.failure != nil {
		return p.withoutFetch(m.failure)
	}
	p.snapshot = m.snapshot
	p.attempted()
	return nil
}

// fetchDue is when a fetch is due. What was fetched since is new enough, for
// whichever NodeSync that was: so those on one repository share each fetch, and
// stay in phase.
func (p *pass) fetchDue(key fetchKey) time.Time {
	m := p.memory
	if m.fetchedAt.IsZero() || m.snapshot == nil && m.failure == nil {
		// The first, or one of which the store is gone. The API server's clock may
		// be ahead of ours.
		return earlier(p.sync.CreationTimestamp.Time, p.now)
	}
	if key != m.fetchedFor || m.fetchedAt.After(p.now.Add(p.timeout())) {
		return p.now // it is another, or the clock was put back since
	}
	if pushed := p.memories.pushed(p.name()); pushed.After(m.fetchedAt) {
		return pushed
	}
	if m.failure != nil {
		return m.fetchedAt.Add(p.retryInterval())
	}
	return m.fetchedAt.Add(p.sync.Spec.Interval.Duration)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// withoutFetch goes on with the last Snapshot of this very spec: it is the newest
// that is known, so that drift is put right and removals go on while a Git host
// is away. Where there is none, the pass ends.
func (p *pass) withoutFetch(err error) error {
	m := p.memory
	if m.snapshot == nil || m.snapshotOf != p.sync.Generation {
		return err
	}
	p.snapshot, p.Unfetched = m.snapshot, err
	p.attempted()
	return nil
}

// fetchNow wants an answer that is as new as the time at which it was due.
func (p *pass) fetchNow(ctx context.Context, due time.Time) (*render.Snapshot, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	request, err := p.request(ctx)
	if err != nil {
		return nil, p.now, err
	}
	request.NotBefore = due
	return p.Source.Fetch(ctx, request)
}

// request is what is asked of the source.
func (p *pass) request(ctx context.Context) (source.Request, error) {
	git := p.sync.Spec.Source.Git
	request := source.Request{Key: p.name().String(), URL: git.URL, Ref: git.Ref}
	if git.SecretRef == nil {
		return request, nil
	}
	secret, err := p.secret(ctx, git.SecretRef.Name)
	if err != nil {
		return source.Request{}, err
	}
	if err := p.Settings.Grants.Check(secret, grant.Use{NodeSync: p.sync.Name, Address: git.URL}); err != nil {
		return source.Request{}, err
	}
	if request.Credentials, err = source.CredentialsFromSecret(secret.Data); err != nil {
		return source.Request{}, fmt.Errorf("read secret %s: %w", git.SecretRef.Name, err)
	}
	p.credentials = append(p.credentials, request.Credentials.Secrets()...)
	return request, nil
}

// attempted notes the revision that this pass is about.
func (p *pass) attempted() {
	p.sync.Status.LastAttemptedRevision = p.snapshot.Revision
}

// secret reads the Secret that the source names.
func (p *pass) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := p.readSecret(ctx, name)
	if err != nil {
		err = fmt.Errorf("read secret %s, which the NodeSync names: %w", name, err)
		return nil, &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonSourceFailed, Err: err}
	}
	return secret, nil
}

// readSecret reads a Secret of the NodeSync's namespace, uncached: Secrets are not
// watched, so that they are never kept.
func (p *pass) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: p.sync.Namespace, Name: name}
	return secret, p.Uncached.Get(ctx, key, secret)
}
