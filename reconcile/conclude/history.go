package conclude

import (
	"context"
	"fmt"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// History is that of the branch, for commit statuses.
type History interface {
	// Known lists the commits since the applied one that changed an input, the newest
	// first, where that is known without asking anybody.
	Known(ctx context.Context, applied string) (commits []string, known bool)
	// Ask asks the Git host for them.
	Ask(ctx context.Context, applied string) ([]string, error)
}

// history is which commits a revision added.
type history struct {
	head    string
	commits []string
}

// commits are those that the revision added and that changed an input, the newest
// first; none where there is none: then the verdict is reported only on HEAD. What is not
// known has to be asked for, once for each revision.
func (s *Step) commits(ctx context.Context) (commits []string, known bool) {
	if last := s.Memory.history; last.head == s.Commit {
		return last.commits, true
	}
	applied := render.CommitOf(s.Before.Status.LastAppliedRevision)
	if applied == "" || applied == s.Commit {
		known = true
	} else {
		commits, known = s.History.Known(ctx, applied)
	}
	if known {
		s.Memory.history = history{head: s.Commit, commits: commits}
	}
	return commits, known
}

// askHistory asks for the commits that the revision added. Where that fails, the
// verdict is reported only on HEAD.
func (s *Step) askHistory(ctx context.Context) {
	applied := render.CommitOf(s.Before.Status.LastAppliedRevision)
	commits, err := s.History.Ask(ctx, applied)
	s.Memory.hidden.addCredentials(s.Memory.read) // it may have read one
	if err != nil {
		s.Warn(v1alpha1.ReasonHistoryUnknown, fmt.Sprintf("the commit status goes only to %s: find the commits since %s: %v", render.ShortRevision(s.Revision), applied, err))
	}
	s.Memory.history = history{head: s.Commit, commits: commits}
}
