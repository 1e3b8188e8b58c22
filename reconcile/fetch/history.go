package fetch

import (
	"context"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// mostCommits is on how many commits one verdict is told.
	mostCommits = 50
	// historyTimeout bounds a question about the history.
	historyTimeout = 15 * time.Second
)

// Known lists the commits since the applied one that changed an input, the newest first,
// where the store has all of them.
func (s *Step) Known(applied string, inputs render.Inputs) (commits []string, known bool) {
	if len(inputs) == 0 {
		return nil, true
	}
	return s.Source.Since(s.name().String(), applied, inputs, mostCommits)
}

// Ask asks the Git host for them.
func (s *Step) Ask(ctx context.Context, applied string, inputs render.Inputs) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, min(s.Sync.GetTimeout(), historyTimeout))
	defer cancel()
	request, err := s.request(ctx)
	if err != nil {
		return nil, err
	}
	return s.Source.FindSince(ctx, request, applied, inputs, mostCommits)
}

// Order says how what was fetched stands to a commit, as far as the store knows.
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
