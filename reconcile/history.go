package reconcile

import (
	"context"
	"time"

	"github.com/plumbline-dev/plumbline/render"
)

const (
	// mostCommits is on how many commits one verdict is told.
	mostCommits = 50
	// historyTimeout bounds a question about the history.
	historyTimeout = 15 * time.Second
)

// branch is the history of what a pass has fetched.
type branch struct{ *pass }

// Known lists the commits since the applied one that changed an input, where the store
// has all of them.
func (b branch) Known(applied string) (commits []string, known bool) {
	inputs := b.inputs()
	if len(inputs) == 0 {
		return nil, true
	}
	return b.Source.Since(b.name().String(), applied, inputs, mostCommits)
}

// Ask asks the Git host for them.
func (b branch) Ask(ctx context.Context, applied string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, min(b.timeout(), historyTimeout))
	defer cancel()
	request, err := b.request(ctx)
	if err != nil {
		return nil, err
	}
	return b.Source.FindSince(ctx, request, applied, b.inputs(), mostCommits)
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
