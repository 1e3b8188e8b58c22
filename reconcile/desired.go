package reconcile

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
)

// fetch takes the newest revision, or the one at hand where none is due.
func (p *pass) fetch(ctx context.Context) error {
	step := p.fetchStep()
	found, err := step.Fetch(ctx)
	p.fetched(step)
	p.snapshot, p.Unfetched = found.Snapshot, found.Unfetched
	if !found.News.IsZero() {
		p.memory.policy.Fetched(found.News)
	}
	return err
}

// prepare fetches and renders while the caches fill, where a pass would. What goes wrong the pass
// finds, too, and reports.
func (p *pass) prepare(ctx context.Context) {
	due := p.Settings.Takes(p.sync) && p.sync.Namespace == p.Settings.Namespace && p.sync.DeletionTimestamp.IsZero() && !p.sync.Spec.Suspend
	if due && p.watches.Serves() && p.fetch(ctx) == nil && p.verify(ctx) == nil {
		_ = p.desiredStep().Prepare(ctx)
	}
}

// verify checks that the revision has the signatures that the NodeSync asks for,
// before anything of it is read.
func (p *pass) verify(ctx context.Context) error {
	step := p.fetchStep()
	err := step.Verify(ctx, p.snapshot)
	p.fetched(step)
	p.Unverified = step.Unverified
	return err
}

// fetched takes what a step has found.
func (p *pass) fetched(step *fetch.Step) {
	p.Join(step.Findings)
	for _, secret := range step.Credentials {
		p.memory.conclude.HideCredential(secret)
	}
}

func (p *pass) fetchStep() *fetch.Step {
	return &fetch.Step{
		Tools: fetch.Tools{Source: p.Source, Secret: p.readSecret, Grants: p.Settings.Grants},
		Sync:  p.sync, Memory: &p.memory.fetch, Now: p.now, Pushed: p.memories.Pushed(p.name()),
	}
}

// readSecret reads a Secret of the NodeSync's namespace, uncached: Secrets are not
// watched, so that they are never kept.
func (p *pass) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, p.Uncached.Get(ctx, client.ObjectKey{Namespace: p.sync.Namespace, Name: name}, secret)
}

// resolveCharts finds the charts of the version in Git, and the schema of the
// definitions: that of their CRDs, or of what is in force where the change is known not
// to be made.
func (p *pass) resolveCharts(ctx context.Context) error {
	return p.desire(func(step *desired.Step, ctx context.Context) (err error) {
		p.NotUpgraded, err = step.ResolveSchema(ctx, func() (error, error) {
			charts := p.chartStep()
			why, err := charts.Refused()
			p.Join(charts.Findings)
			return why, err
		})
		return err
	})(ctx)
}

// render makes the Set, notes what this NodeSync has in Git, and wakes those that wait for
// that.
func (p *pass) render(ctx context.Context) error {
	if err := p.desire((*desired.Step).Render)(ctx); err != nil {
		return err
	}
	_, generation, began := p.memory.fetch.Last()
	for _, name := range p.registry.Remember(p.name(), p.sync.UID, p.want.Set, generation, began) {
		p.Look(name)
	}
	return nil
}

// desire takes one step towards what Git wants, from what the steps before it have
// found.
func (p *pass) desire(take func(*desired.Step, context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		step := p.desiredStep()
		err := take(step, ctx)
		p.Join(step.Findings)
		return err
	}
}

func (p *pass) desiredStep() *desired.Step {
	return &desired.Step{
		Tools: desired.Tools{
			Cached: p.Client, Uncached: p.Uncached, Store: p.Charts, Releases: p.Install, Schemas: &p.schemas,
			Confine: p.Confine, Shared: p.Values, Grants: p.Settings.Grants,
		},
		Desired: &p.want, Snapshot: p.snapshot, Sync: p.sync, Observed: p.before.Status.ObservedGeneration,
		View: p.view, Memory: &p.memory.desired, Now: p.now, Timeout: p.sync.GetTimeout(), Retry: p.sync.GetRetryInterval(), Attempt: fmt.Sprint(p.memory.fetch.Attempt()),
		NotUpgraded: p.NotUpgraded,
		Secret:      p.readSecret,
		Labelled: func(ctx context.Context) (client.Reader, func() time.Duration, error) {
			return p.watches.Labelled(ctx, p.Labelled, p.Uncached)
		},
		HideValues: p.memory.conclude.HideValues, HideCredential: p.memory.conclude.HideCredential,
	}
}
