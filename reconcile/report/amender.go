package report

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
)

// Amender opens pull requests, and changes those that it has opened.
type Amender interface {
	Proposer
	// Opened returns the open pull requests into a branch of the repository whose own branches, in the same repository,
	// start with a prefix; the oldest first.
	Opened(ctx context.Context, base, prefix string) ([]Proposed, error)
	// Amend changes a pull request.
	Amend(ctx context.Context, number int, a Amendment) error
}

// Amendment is a change of a pull request. An empty field stays as it is.
type Amendment struct {
	Title, Body string
	// Close closes it without merging.
	Close bool
}

// fields returns the body of the request, with the names of a host and its word to close a pull request.
func (a Amendment) fields(body, state, closed string) map[string]any {
	fields := map[string]any{}
	if a.Title != "" {
		fields["title"] = a.Title
	}
	if a.Body != "" {
		fields[body] = a.Body
	}
	if a.Close {
		fields[state] = closed
	}
	return fields
}

var amendsProposal = Task{What: "change a pull request", Right: opensProposal.Right}

// Amender returns the client that opens and changes pull requests. Its arguments and error are like Host's.
func (h *Hosts) Amender(provider, repository string, secret map[string][]byte) (Amender, error) {
	p, err := h.Proposer(provider, repository, secret)
	if err != nil {
		return nil, err
	}
	return p.(*poster), nil //nolint:forcetypeassert // Proposer returns no other type
}

// Opened implements Amender.
func (p *poster) Opened(ctx context.Context, base, prefix string) ([]Proposed, error) {
	all, _, err := pages(ctx, p, findsProposal, p.propose.opened(p.repository, base))
	if err != nil {
		return nil, err
	}
	var found []Proposed
	for _, one := range all {
		if one.base == base && !one.fork && one.State == ProposedOpen && strings.HasPrefix(one.Branch, prefix) {
			found = append(found, one.Proposed)
		}
	}
	slices.SortFunc(found, func(a, b Proposed) int { return cmp.Compare(a.Number, b.Number) })
	return found, nil
}

// Amend implements Amender.
func (p *poster) Amend(ctx context.Context, number int, a Amendment) error {
	answer, err := p.get(ctx, amendsProposal, p.propose.amend(p.repository, number, a))
	var gone *NotFoundError
	if errors.As(err, &gone) { // hidden from a token without permission
		return &UnauthorizedError{Task: amendsProposal, Host: gone.Host, Said: answer.message}
	}
	return err
}
