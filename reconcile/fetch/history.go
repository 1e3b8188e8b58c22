package fetch

import (
	"context"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// maxCommits limits on how many commits one verdict is reported.
	maxCommits = 50
	// historyTimeout limits the duration of a query about the history.
	historyTimeout = 15 * time.Second
)

// Branch is the history of what a Step has fetched: the commits that changed some inputs.
type Branch struct {
	*Step
	Read render.Read
}

// Known lists the commits since the applied one that changed an input, newest first, if the store contains all of them
// and responds in time.
func (b Branch) Known(ctx context.Context, applied string) (commits []string, known bool) {
	if len(b.Read.Inputs) == 0 {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(ctx, min(b.Sync.GetTimeout(), historyTimeout))
	defer cancel()
	return b.Source.Since(ctx, b.name().String(), applied, b.Read, maxCommits)
}

// Ask queries the Git host for them.
func (b Branch) Ask(ctx context.Context, applied string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, min(b.Sync.GetTimeout(), historyTimeout))
	defer cancel()
	request, err := b.request(ctx)
	if err != nil {
		return nil, err
	}
	return b.Source.FindSince(ctx, request, applied, b.Read, maxCommits)
}

// Order returns the order of the fetched revision and a commit, according to the store.
func (s *Step) Order(commit string) source.Order { return s.Source.Order(s.name().String(), commit) }

// FindOrder queries the Git host for it.
func (s *Step) FindOrder(ctx context.Context, commit string) (source.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, min(s.Sync.GetTimeout(), historyTimeout))
	defer cancel()
	request, err := s.request(ctx)
	if err != nil {
		return source.OrderUnknown, err
	}
	return s.Source.FindOrder(ctx, request, commit)
}

// apart returns a Step for work outside of reconciles.
func (s *Step) apart() *Step {
	apart := &Step{Tools: s.Tools, Sync: s.Sync.DeepCopy(), Memory: &Memory{}, Now: s.Now}
	apart.HideCredential = func(string) {} // the hook of the reconciles must not be used here; the source redacts its reports
	return apart
}

// Revert returns a function that pushes a commit which reverts files of the source, outside of reconciles.
func (s *Step) Revert() func(context.Context, source.Revert) (source.Reverted, error) {
	apart := s.apart()
	return func(ctx context.Context, r source.Revert) (source.Reverted, error) {
		request, err := apart.request(ctx)
		if err != nil {
			return source.Reverted{}, err
		}
		return s.Source.Revert(ctx, request, r)
	}
}

// Pusher changes branches of the repository of a NodeSync, outside of reconciles.
type Pusher struct{ step *Step }

// Pusher returns one that uses another Secret than the source; nil for the same.
func (s *Step) Pusher(secret *v1alpha1.LocalReference) Pusher {
	apart := &Step{Tools: s.Tools, Sync: s.Sync.DeepCopy(), Memory: &Memory{}, Now: s.Now}
	apart.HideCredential = func(string) {} // as for Revert
	if git := apart.Sync.Spec.Source.Git; git != nil && secret != nil {
		git.SecretRef = secret.DeepCopy()
	}
	return Pusher{step: apart}
}

// Change pushes a commit that changes files, to a branch of its own.
func (p Pusher) Change(ctx context.Context, c source.Change) (source.Changed, error) {
	request, err := p.step.request(ctx)
	if err != nil {
		return source.Changed{}, err
	}
	return p.step.Source.Change(ctx, request, c)
}

// DeleteBranch deletes the branch of a Change, if it has that commit.
func (p Pusher) DeleteBranch(ctx context.Context, c source.Change, commit string) error {
	request, err := p.step.request(ctx)
	if err != nil {
		return err
	}
	return p.step.Source.DeleteBranch(ctx, request, c, commit)
}

// CheckBranch returns a *source.BranchError unless the branch of a Change has that commit, and a Change has pushed it.
func (p Pusher) CheckBranch(ctx context.Context, c source.Change, commit string) error {
	request, err := p.step.request(ctx)
	if err != nil {
		return err
	}
	return p.step.Source.CheckBranch(ctx, request, c, commit)
}
