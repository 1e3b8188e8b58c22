package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/plumbline-dev/plumbline/render"
)

const (
	// mostCommits is on how many commits one verdict is told.
	mostCommits = 50
	// historyTimeout bounds the look at the history: the conclusion waits for it,
	// and with it the NodeSync's status.
	historyTimeout = 15 * time.Second
)

// history is which commits a revision brought, for the commit statuses.
type history struct {
	head    string
	commits []string
}

// changing are the commits since the last applied one that changed an input, the
// newest first; none where there is none, or it cannot be known: then the verdict
// is told on HEAD alone. Each revision is asked for once.
func (p *pass) changing(ctx context.Context) []string {
	known := &p.memory.history
	if known.head == p.snapshot.Commit {
		return known.commits
	}
	*known = history{head: p.snapshot.Commit}
	applied, inputs := render.CommitOf(p.before.Status.LastAppliedRevision), p.inputs()
	if applied == "" || applied == p.snapshot.Commit || len(inputs) == 0 {
		return nil
	}
	commits, err := p.since(ctx, applied, inputs)
	if err != nil {
		p.Warn("HistoryUnknown", fmt.Sprintf("the commit status goes to %s alone: find the commits since %s: %v", render.ShortRevision(p.snapshot.Revision), applied, err))
		return nil
	}
	known.commits = commits
	return commits
}

func (p *pass) since(ctx context.Context, applied string, inputs render.Inputs) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, min(p.timeout(), historyTimeout))
	defer cancel()
	request, err := p.request(ctx)
	if err != nil {
		return nil, err
	}
	return p.Source.Since(ctx, request, applied, inputs, mostCommits)
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
