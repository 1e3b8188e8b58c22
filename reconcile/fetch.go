package reconcile

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/render"
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
		Sync:  p.sync, Memory: &p.memory.fetch, Now: p.now, Pushed: p.memories.pushed(p.name()),
	}
}

// branch is the history of what a pass has fetched.
type branch struct{ *pass }

// Known lists the commits since the applied one that changed an input, where that is
// known.
func (b branch) Known(applied string) (commits []string, known bool) {
	return b.fetchStep().Known(applied, b.inputs())
}

// Ask asks the Git host for them.
func (b branch) Ask(ctx context.Context, applied string) ([]string, error) {
	return b.fetchStep().Ask(ctx, applied, b.inputs())
}

// inputs are those of this revision, or where it does not render of the last that
// did.
func (p *pass) inputs() render.Inputs {
	switch {
	case p.want.Set != nil:
		return p.want.Set.Inputs
	case p.memory.desired.Set != nil:
		return p.memory.desired.Set.Inputs
	}
	return nil
}

// readSecret reads a Secret of the NodeSync's namespace, uncached: Secrets are not
// watched, so that they are never kept.
func (p *pass) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: p.sync.Namespace, Name: name}
	return secret, p.Uncached.Get(ctx, key, secret)
}
