// Package fetch provides the newest revision of a NodeSync's repository, or the cached one if no fetch is due, with its
// required signatures. It decides when to fetch what; reconcile/source communicates with the Git host.
package fetch

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
	"github.com/plumbline-dev/plumbline/render"
)

// Fetch fetches the newest revision, or returns the cached one if no fetch is due.
func (s *Step) Fetch(ctx context.Context) (Fetched, error) {
	requested, asked := meta.ReconcileAnnotationValue(s.Sync.GetAnnotations())
	if asked {
		// Handled even if the fetch fails: the user who requested it waits for a response.
		s.Sync.Status.SetLastHandledReconcileRequest(requested)
	}
	key := Attempt{generation: s.Sync.Generation, requested: requested}
	if s.Sync.Spec.Promotion == nil {
		s.Sync.Status.Promotion = nil
	}
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

// timed returns a Snapshot whose reads are limited to this reconcile.
func (s *Step) timed(ctx context.Context, snapshot *render.Snapshot) *render.Snapshot {
	within := snapshot.Within(ctx, s.Sync.Spec.Path, render.Reading)
	return &within
}

// fetchDue returns when a fetch is due. A fetch since then is new enough, for whichever NodeSync it was: NodeSyncs with
// the same repository share each fetch, and stay in phase.
func (s *Step) fetchDue(key Attempt) time.Time {
	m := s.Memory
	if m.fetchedAt.IsZero() || m.snapshot == nil && m.failure == nil {
		// The first fetch, or the store was lost. The API server's clock may be ahead of ours.
		return earlier(s.Sync.CreationTimestamp.Time, s.Now)
	}
	if key != m.fetchedFor || m.fetchedAt.After(s.Now.Add(s.Sync.GetTimeout())) {
		return s.Now // another attempt, or the clock was set back since
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
	next := m.fetchedAt.Add(s.Sync.Spec.Interval.Duration)
	if again := m.promoted.again; again.After(m.fetchedAt) {
		next = earlier(next, again) // a soak or a window ends
	}
	return next
}

// ReadSince reports whether Git was read since a time. If not, why is the reason, and wake is when the next reconcile
// should read it: zero if the last read failed, and the next is a retry.
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

// fetchNow fetches a revision that is at least as new as the time at which it was due. With spec.promotion, it is the
// newest one that the rings let this cluster take; an error then may come with the one that was taken last.
func (s *Step) fetchNow(ctx context.Context, due time.Time) (*render.Snapshot, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Sync.GetTimeout())
	defer cancel()
	request, err := s.request(ctx)
	if err != nil {
		return nil, s.Now, err
	}
	request.NotBefore = due
	snapshot, began, err := s.Source.Fetch(ctx, request)
	if err != nil || s.Sync.Spec.Promotion == nil {
		return snapshot, began, err
	}
	s.tip = snapshot.Commit
	snapshot, err = s.promote(ctx, request)
	return snapshot, began, err
}

// request returns the request to the source.
func (s *Step) request(ctx context.Context) (source.Request, error) {
	if ref := s.Sync.SourceRef(); ref != nil {
		artifact, err := s.artifact(ctx, *ref)
		return source.Request{Key: s.name().String(), Artifact: artifact}, err
	}
	s.Sync.Status.Artifacts = nil
	git := s.Sync.Spec.Source.Git
	request := source.Request{Key: s.name().String(), URL: git.URL, Ref: git.Ref, Records: recordReferences(s.Sync.Spec.Promotion)}
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

// secret reads the Secret that the source references.
func (s *Step) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := s.Secret(ctx, name)
	if err != nil {
		err = fmt.Errorf("read secret %s, which the NodeSync names: %w", name, err)
		return nil, fault.SourceFailed(err)
	}
	return secret, nil
}

// Source fetches revisions.
type Source interface {
	// Fetch returns the newest revision, and when its fetch began: it may have been made for another NodeSync.
	Fetch(ctx context.Context, req source.Request) (*render.Snapshot, time.Time, error)
	// Artifact returns the newest artifact of a source of Flux, and triggers a reconcile of the NodeSync when there is
	// a new one.
	Artifact(ctx context.Context, of types.NamespacedName, ref v1alpha1.SourceRef) (*source.Artifact, error)
	// Verify returns who has signed the commit or tag of the last Snapshot.
	Verify(ctx context.Context, req source.Request, want source.Signatures) (source.Verified, error)
	// Since lists the commits that the last Snapshot contains and the applied one does not, and that changed an input,
	// newest first, if they are known without a request; FindSince queries the host.
	Since(ctx context.Context, key, applied string, read render.Read, limit int) (commits []string, known bool)
	FindSince(ctx context.Context, req source.Request, applied string, read render.Read, limit int) ([]string, error)
	// Order returns the order of the last Snapshot and a commit, if it is known without a request; FindOrder queries
	// the host.
	Order(key, commit string) source.Order
	FindOrder(ctx context.Context, req source.Request, commit string) (source.Order, error)
	// Records returns the records of clusters that the last fetch has found, and PushRecord pushes that of this cluster.
	Records(key string) source.Records
	PushRecord(ctx context.Context, req source.Request, refs []string, data []byte) (ref string, err error)
	// Branch returns the history of the branch, SignerOf who has signed a commit of it, At the files of one, and Pick makes
	// one the last Snapshot.
	Branch(ctx context.Context, req source.Request, q source.BranchQuery) (source.Branch, error)
	SignerOf(key, commit string, keys signature.Keys, now time.Time) (string, error)
	At(key, commit string) (*render.Snapshot, error)
	Pick(ctx context.Context, req source.Request, commit string) (*render.Snapshot, error)
	// Revert pushes a commit that reverts files, to a branch of its own.
	Revert(ctx context.Context, req source.Request, r source.Revert) (source.Reverted, error)
	// Change pushes a commit that changes files, to a branch of its own; DeleteBranch deletes one that has its commit, and
	// CheckBranch only checks that.
	Change(ctx context.Context, req source.Request, c source.Change) (source.Changed, error)
	DeleteBranch(ctx context.Context, req source.Request, c source.Change, commit string) error
	CheckBranch(ctx context.Context, req source.Request, c source.Change, commit string) error
	// Forget deletes what is stored for a deleted NodeSync.
	Forget(key string) error
}

// Tools are the dependencies of a fetch.
type Tools struct {
	Source Source
	// Secret reads a Secret of the NodeSync's namespace.
	Secret func(ctx context.Context, name string) (*corev1.Secret, error)
	Grants grant.Policy
	// HideCredential receives the data of Secrets, before anything else is reported.
	HideCredential func(secret string)
}

// Step fetches for one reconcile, and records in the status what it has fetched and verified.
type Step struct {
	Tools
	finding.Findings
	Sync   *v1alpha1.NodeSync
	Memory *Memory
	Now    time.Time
	// Pushed is when a host last announced something new.
	Pushed time.Time

	// Own is the record of this cluster, newer than the one in Git; nil if there is none.
	Own *promotion.Record

	// Unverified is why the revision does not have the required signatures.
	Unverified error

	// tip is the newest commit of the branch.
	tip string
}

// Fetched is what a reconcile is based on.
type Fetched struct {
	Snapshot *render.Snapshot
	// Unfetched is why the source could not be fetched, if the Snapshot is the last one of the same spec: it is the
	// newest known one, so that drift is corrected and removals in progress continue while a Git host is unavailable.
	Unfetched error
	// News is when the fetch began that first returned this commit; zero if an earlier fetch did.
	News time.Time
}

// Memory is what one fetch passes to the next. Losing it only costs a fetch.
type Memory struct {
	// The last fetch: when it began, its purpose, and why it failed, if it did.
	fetchedAt time.Time
	// wanted is the time since which a step needs Git to be read.
	wanted     time.Time
	fetchedFor Attempt
	failure    error
	// The last Snapshot, the generation of its NodeSync, and when its fetch began.
	snapshot   *render.Snapshot
	snapshotOf int64
	snapshotAt time.Time

	// The revision that could not be verified.
	unverified unverified
	// What the rings let this cluster take, and its record in Git.
	promoted promoted
	own      ownRecord
}

// Attempt identifies a fetch: if it changes, a fetch is due early.
type Attempt struct {
	generation int64
	requested  string
}

// Last returns the last Snapshot, the generation of its NodeSync, and when its fetch began; nil if there is none.
func (m *Memory) Last() (snapshot *render.Snapshot, generation int64, began time.Time) {
	return m.snapshot, m.snapshotOf, m.snapshotAt
}

// Attempt returns the Attempt of the last fetch.
func (m *Memory) Attempt() Attempt { return m.fetchedFor }

// Forget makes the next reconcile fetch again, because the store was lost.
func (m *Memory) Forget() { m.snapshot = nil }

func (s *Step) name() types.NamespacedName { return client.ObjectKeyFromObject(s.Sync) }

// artifact returns the newest artifact of a source of Flux, with the earlier ones in the status. Only the times at
// which Flux made them show which of two is older, and another process may have read these.
func (s *Step) artifact(ctx context.Context, ref v1alpha1.SourceRef) (*source.Artifact, error) {
	a, err := s.Source.Artifact(ctx, s.name(), ref)
	if err != nil {
		return a, err
	}
	a.Before = map[string]time.Time{}
	status := &s.Sync.Status
	known := []v1alpha1.Artifact{{Revision: a.Revision, Updated: metav1.NewTime(a.Updated)}}
	for _, one := range status.Artifacts {
		a.Before[render.CommitOf(one.Revision)] = one.Updated.Time
		withheld := status.Withheld != nil && one.Revision == status.Withheld.From
		if one.Revision != a.Revision && (withheld || one.Revision == status.LastAppliedRevision || one.Revision == status.PartlyAppliedRevision) {
			known = append(known, one)
		}
	}
	status.Artifacts = known
	return a, nil
}

// Read fetches what a suspended NodeSync follows, no older than a time, and verifies it, on behalf of another NodeSync.
// It returns when that fetch began. It changes neither the status nor the Memory of the NodeSync's own reconciles.
func (s *Step) Read(ctx context.Context, notBefore time.Time) (*render.Snapshot, time.Time, error) {
	apart := &Step{Tools: s.Tools, Sync: s.Sync.DeepCopy(), Memory: &Memory{}, Now: s.Now}
	return apart.read(ctx, notBefore)
}

func (s *Step) read(ctx context.Context, notBefore time.Time) (*render.Snapshot, time.Time, error) {
	snapshot, began, err := s.fetchNow(ctx, notBefore)
	if err != nil {
		return nil, began, err
	}
	if err := s.Verify(ctx, snapshot); err != nil {
		return nil, began, err
	}
	applied := s.Sync.Status.LastAppliedRevision
	older := applied != "" && snapshot.Commit != render.CommitOf(applied) && s.Order(render.CommitOf(applied)) == source.OrderOlder
	if last := s.Sync.Status.LastVerified; older || last != nil && last.Newer != nil {
		// What it does not contain proves nothing: the host lags behind.
		return nil, began, fault.OlderRevision(fmt.Errorf("%s is older than what was applied", render.ShortRevision(snapshot.Revision)))
	}
	return s.timed(ctx, snapshot), began, nil
}
