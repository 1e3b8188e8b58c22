package report

import (
	"context"
	"errors"
	"net/http"
)

// Proposer opens pull requests.
type Proposer interface {
	// Proposed is the newest pull request from a branch of the repository into another one, whatever
	// became of it; nil where there was none.
	Proposed(ctx context.Context, branch, base string) (*Proposed, error)
	// Propose opens one. Where one is open already, it returns that.
	Propose(ctx context.Context, p Proposal) (*Proposed, error)
}

// Proposal is a pull request to open. Body is Markdown.
type Proposal struct {
	Branch, Base, Title, Body string
}

// Proposed is a pull request that was opened.
type Proposed struct {
	// URL is its page.
	URL string
	// State is Open, Merged or Closed.
	State ProposedState
	// Head is the commit that its branch has, or had when it was merged or closed; empty where the
	// host does not say.
	Head string
}

// ProposedState is what became of a pull request.
type ProposedState string

// The states of a pull request.
const (
	ProposedOpen   ProposedState = "Open"
	ProposedMerged ProposedState = "Merged"
	ProposedClosed ProposedState = "Closed"
)

// proposing is how one kind of host opens pull requests. It has no I/O.
type proposing struct {
	// from are those from a branch into another one, the newest first: a host may list others too, and
	// more than are read. pair asks for one of them, whichever; nil where from lists no others.
	from func(r repository, branch, base string) listing[listed]
	pair func(r repository, branch, base string) request
	open func(r repository, p Proposal) request
	one  func(body []byte) (listed, error)
}

// listed is a pull request as it is listed.
type listed struct {
	Proposed
	branch, base string
	// fork says that the branch is of another repository.
	fork bool
}

var (
	findsProposal = Task{What: "look for a pull request", Right: "read pull requests"}
	opensProposal = Task{What: "open a pull request", Right: "open pull requests (GitHub: Pull requests, read and write; GitLab: the scope api; Gitea and Forgejo: write:repository)"}
)

// Proposer returns the client that opens pull requests, likewise.
func (h *Hosts) Proposer(provider, repository string, secret map[string][]byte) (Proposer, error) {
	p, err := h.open(provider, repository, secret, permissions{"pull_requests": "write"})
	if err != nil {
		return nil, err
	}
	if p.propose == nil {
		return nil, &RepositoryError{URL: Clean(repository), Reason: "is on a host of the kind " + provider + ", where no pull request is opened"}
	}
	return p, nil
}

// Proposes says whether pull requests are opened on a kind of host.
func Proposes(provider string) bool { return adapters()[provider].propose != nil }

// Proposed asks page by page, until it is found, and at the end for the very branch, where there are
// more pages than are read.
func (p *poster) Proposed(ctx context.Context, branch, base string) (*Proposed, error) {
	found, more, err := p.newest(ctx, branch, base)
	if err != nil || found != nil || !more || p.propose.pair == nil {
		return found, err
	}
	a, err := p.get(ctx, findsProposal, p.propose.pair(p.repository, branch, base))
	if errors.As(err, new(*NotFoundError)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	one, err := p.propose.one(a.body)
	if err != nil {
		return nil, p.unreadable(findsProposal, err)
	}
	return &one.Proposed, nil
}

// newest is the first one that is listed; more says that there are pages that are not read.
func (p *poster) newest(ctx context.Context, branch, base string) (found *Proposed, more bool, err error) {
	list := p.propose.from(p.repository, branch, base)
	read, next := list.read, list.next
	list.read = func(body []byte) ([]listed, error) {
		page, err := read(body)
		for _, one := range page {
			if found == nil && one.branch == branch && one.base == base && !one.fork {
				found = &one.Proposed
			}
		}
		return nil, err
	}
	list.next = func(of request, a answer) (request, bool, error) {
		if found != nil {
			return request{}, false, nil
		}
		return next(of, a)
	}
	_, more, err = pages(ctx, p, findsProposal, list)
	return found, more, err
}

// Propose asks the host, and where it has one already looks which.
func (p *poster) Propose(ctx context.Context, proposal Proposal) (*Proposed, error) {
	a, err := p.get(ctx, opensProposal, p.propose.open(p.repository, proposal))
	if err == nil {
		made, err := p.propose.one(a.body)
		if err != nil {
			return nil, p.unreadable(opensProposal, err)
		}
		return &made.Proposed, nil
	}
	if a.code == http.StatusConflict || a.code == http.StatusUnprocessableEntity {
		// Another request was faster, or the answer to one before was lost.
		if found, lookErr := p.Proposed(ctx, proposal.Branch, proposal.Base); lookErr == nil && found != nil {
			return found, nil
		}
	}
	var gone *NotFoundError
	if errors.As(err, &gone) { // hidden from a token that may not
		return nil, &UnauthorizedError{Task: opensProposal, Host: gone.Host, Said: a.said}
	}
	return nil, err
}
