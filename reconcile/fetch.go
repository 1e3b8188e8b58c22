package reconcile

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/render"
)

// revision is what Git has: the first phase's result.
type revision struct {
	finding.Findings
	// Snapshot contains the files of the commit; nil if none was fetched since the daemon started.
	Snapshot *render.Snapshot
	// Unfetched is why the source could not be fetched, if the last Snapshot still counts.
	Unfetched error
	// Unverified is why the commit does not have a signature that the NodeSync requires.
	Unverified error
	// Config is what plumbline.yaml says. The third phase adds its charts, schema and definitions.
	Config evaluate.Desired
}

// fetch gets the newest commit, with spec.promotion the newest one that the rings let this cluster take, or the last one if no fetch is due, verifies its signatures before anything of it is
// read, and reads plumbline.yaml.
func (r *reconciliation) fetch(ctx context.Context) (revision, error) {
	return step.All(ctx, r.trace, revision{}, []step.Of[revision]{
		{Name: step.Fetch, Do: func(ctx context.Context, _ revision) (revision, error) { return r.fetchSource(ctx) }},
		{Name: step.Verify, Do: r.verify},
		{Name: step.Configure, Do: r.configure},
	})
}

// fetchSource fetches Git, or the artifact of another source.
func (r *reconciliation) fetchSource(ctx context.Context) (revision, error) {
	work := r.sourceStep()
	found, err := work.Fetch(ctx)
	r.continueRecord(work)
	if !found.News.IsZero() {
		r.memory.policy.Fetched(found.News)
	}
	return revision{Findings: work.Findings, Snapshot: found.Snapshot, Unfetched: found.Unfetched}, err
}

// verify verifies the signatures of the commit.
func (r *reconciliation) verify(ctx context.Context, rev revision) (revision, error) {
	work := r.sourceStep()
	err := work.Verify(ctx, rev.Snapshot)
	rev.Unverified = work.Unverified
	if err == nil {
		work.Take(rev.Snapshot)
	}
	rev.Join(work.Findings)
	return rev, err
}

// configure reads plumbline.yaml.
func (r *reconciliation) configure(ctx context.Context, rev revision) (revision, error) {
	ev, err := r.continueEvaluation(ctx, evaluation{revision: rev}, evaluate.Configure)
	rev.Config = ev.Desired
	rev.Join(ev.Findings)
	return rev, err
}

// prepare fetches and renders while the caches fill. The next reconcile finds and reports its failures.
func (r *reconciliation) prepare(ctx context.Context) {
	if !r.Settings.Reconciles(r.sync) || r.sync.Namespace != r.Settings.Namespace || r.sync.IsPaused() || !r.sync.DeletionTimestamp.IsZero() {
		return
	}
	if !r.watches.Serves() {
		return
	}
	rev, err := r.fetchSource(ctx)
	if err == nil {
		rev, err = r.verify(ctx, rev)
	}
	if err == nil {
		work := r.wanted(rev)
		work.Desired = &evaluate.Desired{}
		_ = work.Prepare(ctx)
	}
}

func (r *reconciliation) sourceStep() *fetch.Step {
	return &fetch.Step{
		Tools: fetch.Tools{Source: r.Source, Secret: r.readSecret, Grants: r.Settings.Grants, HideCredential: r.memory.conclude.HideCredential},
		Sync:  r.sync, Memory: &r.memory.fetch, Now: r.now, Pushed: r.memories.Pushed(r.name()),
		Own: r.memory.publisher.Record(),
	}
}

// readSecret reads a Secret of the NodeSync's namespace uncached: a watch would keep it in memory.
func (r *reconciliation) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, r.Uncached.Get(ctx, client.ObjectKey{Namespace: r.sync.Namespace, Name: name}, secret)
}
