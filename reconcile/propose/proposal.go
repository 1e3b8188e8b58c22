package propose

import (
	"context"
	"errors"
	"fmt"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// proposal is the work on one pull request.
type proposal struct {
	Look
	revert revert
	branch string
	push   func(ctx context.Context, r source.Revert) (source.Reverted, error)
}

// exchange is a question to a Git host.
type exchange func(ctx context.Context, to report.Proposer) (*report.Proposed, error)

// make finds the pull request, or pushes its branch and opens it. One that is open is ours only with
// the commit that would be pushed: the name of its branch is known before that is there.
func (p proposal) make(ctx context.Context) (v1alpha1.RevertProposal, error) {
	into := p.Sync.Spec.Source.FollowedBranch()
	found, err := p.ask(ctx, func(ctx context.Context, to report.Proposer) (*report.Proposed, error) {
		return to.Proposed(ctx, p.branch, into)
	})
	if err != nil || found != nil && found.State != report.ProposedOpen {
		return of(found, ""), err
	}
	if known := p.revert.Known; found != nil && known != nil && known.Commit != "" {
		return of(found, known.Commit), nil
	}
	if err := p.StillLeader(ctx); err != nil {
		return v1alpha1.RevertProposal{}, err
	}
	pushing, cancel := context.WithTimeout(ctx, p.Sync.GetTimeout())
	defer cancel()
	reverted, err := p.push(pushing, source.Revert{
		Branch: p.branch, From: render.CommitOf(p.revert.From), Bad: render.CommitOf(p.revert.Bad),
		Within: p.within, Message: p.message(), At: p.revert.At.Time,
	})
	switch {
	case err != nil && found != nil && errors.As(err, new(*source.BranchError)):
		return v1alpha1.RevertProposal{}, fmt.Errorf("%s is open and does not have the commit that plumbline would make: read it, and merge or close it: %w", found.URL, err)
	case err != nil:
		return v1alpha1.RevertProposal{}, err
	case reverted.Commit == "":
		return v1alpha1.RevertProposal{Message: fmt.Sprintf("in %s nothing is left to take back: the files that NodeSync is made of are as they were in %s", into, render.ShortRevision(p.revert.From))}, nil
	case found != nil:
		return of(found, reverted.Commit), nil
	}
	if err := p.StillLeader(ctx); err != nil {
		return v1alpha1.RevertProposal{}, err
	}
	made, err := p.ask(ctx, func(ctx context.Context, to report.Proposer) (*report.Proposed, error) {
		return to.Propose(ctx, report.Proposal{Branch: p.branch, Base: into, Title: p.title(), Body: p.body(reverted)})
	})
	return of(made, reverted.Commit), err
}

// of is what the status says of a pull request, to whose branch plumbline has pushed a commit.
func of(found *report.Proposed, commit string) v1alpha1.RevertProposal {
	if found == nil {
		return v1alpha1.RevertProposal{}
	}
	return v1alpha1.RevertProposal{
		URL: found.URL, Commit: commit, Closed: found.State == report.ProposedClosed, Merged: found.State == report.ProposedMerged,
		Changed: commit != "" && found.Head != "" && found.Head != commit,
	}
}

// ask asks the host, with the Secret as it is now.
func (p proposal) ask(ctx context.Context, question exchange) (*report.Proposed, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Sync.GetTimeout())
	defer cancel()
	to, _ := host(p.Sync)
	at := queue.HostOf(p.Sync, to)
	secret, err := p.Secret(ctx, at.Secret)
	if err != nil {
		return nil, fmt.Errorf("open a pull request: read secret %s, which spec.report names: %w", at.Secret, err)
	}
	if err := p.Grants.Check(secret, grant.Use{NodeSync: p.Sync.Name, Address: at.URL}); err != nil {
		return nil, err
	}
	client, err := p.Hosts.Proposer(at.Provider, at.URL, secret.Data)
	if err != nil {
		return nil, err
	}
	return question(ctx, client)
}
