package fetch

import (
	"context"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// mostCommits is on how many commits one verdict is reported.
	mostCommits = 50
	// historyTimeout bounds a question about the history.
	historyTimeout = 15 * time.Second
)

// Branch is the history of what a Step has fetched: the commits that changed some inputs.
type Branch struct {
	*Step
	Read render.Read
}

// Known lists the commits since the applied one that changed an input, the newest first,
// where the store has all of them and can tell in time.
func (b Branch) Known(ctx context.Context, applied string) (commits []string, known bool) {
	if len(b.Read.Inputs) == 0 {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(ctx, min(b.Sync.GetTimeout(), historyTimeout))
	defer cancel()
	return b.Source.Since(ctx, b.name().String(), applied, b.Read, mostCommits)
}

// Ask asks the Git host for them.
func (b Branch) Ask(ctx context.Context, applied string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, min(b.Sync.GetTimeout(), historyTimeout))
	defer cancel()
	request, err := b.request(ctx)
	if err != nil {
		return nil, err
	}
	return b.Source.FindSince(ctx, request, applied, b.Read, mostCommits)
}

// Order says how what was fetched stands to a commit, by what the store has.
func (s *Step) Order(commit string) source.Order { return s.Source.Order(s.name().String(), commit) }

// FindOrder asks the Git host for it.
func (s *Step) FindOrder(ctx context.Context, commit string) (source.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, min(s.Sync.GetTimeout(), historyTimeout))
	defer cancel()
	request, err := s.request(ctx)
	if err != nil {
		return source.OrderUnknown, err
	}
	return s.Source.FindOrder(ctx, request, commit)
}

// Revert is what pushes a commit that takes files of the source back, beside the reconciles.
func (s *Step) Revert() func(context.Context, source.Revert) (source.Reverted, error) {
	apart := &Step{Tools: s.Tools, Sync: s.Sync.DeepCopy(), Memory: &Memory{}, Now: s.Now}
	apart.HideCredential = func(string) {} // it is the reconciles' own, and the source hides what it reports itself
	return func(ctx context.Context, r source.Revert) (source.Reverted, error) {
		request, err := apart.request(ctx)
		if err != nil {
			return source.Reverted{}, err
		}
		return s.Source.Revert(ctx, request, r)
	}
}
