package report

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Proposer opens pull requests.
type Proposer interface {
	// Proposed returns the newest pull request from a branch of the repository into another one, in any state; nil if
	// there was none.
	Proposed(ctx context.Context, branch, base string) (*Proposed, error)
	// Propose opens one. If one is already open, it returns that.
	Propose(ctx context.Context, p Proposal) (*Proposed, error)
}

// Proposal is a pull request to open. Body is Markdown.
type Proposal struct {
	Branch, Base, Title, Body string
}

// Proposed is a pull request that exists on the host.
type Proposed struct {
	// Number identifies it on its host, and Branch is its own branch.
	Number int
	Branch string
	Title  string
	// URL is its web page.
	URL string
	// State is Open, Merged or Closed.
	State ProposedState
	// Head is the commit of its branch, now or when it was merged or closed; empty if the host does not say.
	Head string
}

// ProposedState is the state of a pull request.
type ProposedState string

// The states of a pull request.
const (
	ProposedOpen   ProposedState = "Open"
	ProposedMerged ProposedState = "Merged"
	ProposedClosed ProposedState = "Closed"
)

// proposing defines the requests for opening pull requests on one kind of host. It does no I/O.
type proposing struct {
	// from lists those from a branch into another one, newest first; a host may list others too, and more than are
	// read. pair requests any one of them; nil if from lists no others.
	from func(r repository, branch, base string) listing[listed]
	pair func(r repository, branch, base string) request
	open func(r repository, p Proposal) request
	one  func(body []byte) (listed, error)
	// opened lists the open ones into a branch; a host may list others too. amend requests an Amendment of one.
	opened func(r repository, base string) listing[listed]
	amend  func(r repository, number int, a Amendment) request
}

// listed is a pull request in a list.
type listed struct {
	Proposed
	base string
	// fork reports whether the branch is in another repository.
	fork bool
}

var (
	findsProposal = Task{What: "look for a pull request", Right: "read pull requests"}
	opensProposal = Task{
		What:  "open a pull request",
		Right: "open pull requests (GitHub: Pull requests, read and write; GitLab: the scope api; Gitea and Forgejo: write:repository)",
	}
)

// Proposer returns the client that opens pull requests. Its arguments and error are like Host's.
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

// Proposes reports whether pull requests can be opened on a kind of host.
func Proposes(provider string) bool { return adapters()[provider].propose != nil }

// Proposed implements Proposer. It reads pages until it finds the pull request; if there are more pages than are read,
// it requests that of the branch directly.
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

// newest returns the first one that is listed; more reports whether there are pages that were not read.
func (p *poster) newest(ctx context.Context, branch, base string) (found *Proposed, more bool, err error) {
	list := p.propose.from(p.repository, branch, base)
	read, next := list.read, list.next
	list.read = func(body []byte) ([]listed, error) {
		page, err := read(body)
		for _, one := range page {
			if found == nil && one.Branch == branch && one.base == base && !one.fork {
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

// Propose implements Proposer. If the host reports an existing one, it looks that up.
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
		// Another request was faster, or the response to an earlier one was lost.
		if found, lookErr := p.Proposed(ctx, proposal.Branch, proposal.Base); lookErr == nil && found != nil {
			return found, nil
		}
	}
	var gone *NotFoundError
	if errors.As(err, &gone) { // hidden from a token without permission
		return nil, &UnauthorizedError{Task: opensProposal, Host: gone.Host, Said: a.message}
	}
	return nil, err
}

// githubProposal contains the fields that are read of a pull request on GitHub, Gitea and Forgejo.
type githubProposal struct {
	Number int     `json:"number"`
	Title  string  `json:"title"`
	URL    string  `json:"html_url"`
	State  string  `json:"state"`
	Merged *string `json:"merged_at"`
	Head   struct {
		githubSide
		// Label is the branch's name on Gitea, where Ref changes after the branch was deleted.
		Label string `json:"label"`
	} `json:"head"`
	Base githubSide `json:"base"`
}

func (g githubProposal) listed() listed {
	l := listed{
		Proposed: Proposed{Number: g.Number, Branch: g.Head.Ref, Title: g.Title, URL: g.URL, State: ProposedOpen, Head: g.Head.SHA},
		base:     g.Base.Ref, fork: isFork(g.Head.githubSide, g.Base),
	}
	switch {
	case g.Merged != nil:
		l.State = ProposedMerged
	case g.State == "closed":
		l.State = ProposedClosed
	}
	return l
}

// githubProposed is the request body of GitHub, Gitea and Forgejo.
type githubProposed struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Head  string `json:"head"`
	Base  string `json:"base"`
}

// githubProposing opens pull requests, and finds them by their branch.
// https://docs.github.com/rest/pulls/pulls#list-pull-requests, #create-a-pull-request
func githubProposing() *proposing {
	at := func(r repository) string { return join(githubAPI(r), "repos", r.owner, r.name, "pulls") }
	return &proposing{
		from: func(r repository, branch, base string) listing[listed] {
			query := url.Values{
				"state": {"all"}, "head": {r.owner + ":" + branch}, "base": {base}, "sort": {"created"}, "direction": {"desc"},
				"per_page": {strconv.Itoa(perPage)}, "page": {"1"},
			}
			return listing[listed]{first: reads(at(r)+"?"+query.Encode(), githubHeader()), read: readAll(githubProposal.listed), next: nextByLink}
		},
		open: func(r repository, p Proposal) request {
			return request{to: at(r), header: githubHeader(), body: githubProposed{Title: p.Title, Body: p.Body, Head: p.Branch, Base: p.Base}}
		},
		one: readOne(githubProposal.listed),
		opened: func(r repository, base string) listing[listed] {
			query := url.Values{
				"state": {"open"}, "base": {base}, "sort": {"created"}, "direction": {"desc"},
				"per_page": {strconv.Itoa(perPage)}, "page": {"1"},
			}
			return listing[listed]{first: reads(at(r)+"?"+query.Encode(), githubHeader()), read: readAll(githubProposal.listed), next: nextByLink}
		},
		amend: func(r repository, number int, a Amendment) request {
			return request{method: http.MethodPatch, to: join(at(r), strconv.Itoa(number)), header: githubHeader(), body: a.fields("body", "state", "closed")}
		},
	}
}

// giteaProposing is the same with another root. Not all versions of Gitea can filter by branch, and the ref of a pull
// request changes after its branch was deleted. https://docs.gitea.com/api, GET and POST /repos/{owner}/{repo}/pulls,
// GET …/pulls/{base}/{head}
func giteaProposing() *proposing {
	at := func(r repository) string { return join(r.root(), "api", "v1", "repos", r.owner, r.name, "pulls") }
	labelled := func(g githubProposal) listed {
		l := g.listed()
		l.Branch = g.Head.Label
		return l
	}
	return &proposing{
		from: func(r repository, _, _ string) listing[listed] {
			query := url.Values{"state": {"all"}, "limit": {strconv.Itoa(perPage)}, "page": {"1"}}
			return listing[listed]{first: reads(at(r)+"?"+query.Encode(), nil), read: readAll(labelled), next: nextByLink}
		},
		pair: func(r repository, branch, base string) request {
			return reads(join(at(r), append([]string{base}, strings.Split(branch, "/")...)...), nil)
		},
		open: func(r repository, p Proposal) request {
			return request{to: at(r), body: githubProposed{Title: p.Title, Body: p.Body, Head: p.Branch, Base: p.Base}}
		},
		one: readOne(labelled),
		opened: func(r repository, _ string) listing[listed] {
			query := url.Values{"state": {"open"}, "limit": {strconv.Itoa(perPage)}, "page": {"1"}}
			return listing[listed]{first: reads(at(r)+"?"+query.Encode(), nil), read: readAll(labelled), next: nextByLink}
		},
		amend: func(r repository, number int, a Amendment) request {
			return request{method: http.MethodPatch, to: join(at(r), strconv.Itoa(number)), body: a.fields("body", "state", "closed")}
		},
	}
}

// gitlabProposal contains the fields that are read of a merge request to propose.
type gitlabProposal struct {
	Number        int    `json:"iid"`
	Title         string `json:"title"`
	URL           string `json:"web_url"`
	State         string `json:"state"`
	SHA           string `json:"sha"`
	Source        string `json:"source_branch"`
	Target        string `json:"target_branch"`
	SourceProject int64  `json:"source_project_id"`
	TargetProject int64  `json:"target_project_id"`
}

func (g gitlabProposal) listed() listed {
	l := listed{
		Proposed: Proposed{Number: g.Number, Branch: g.Source, Title: g.Title, URL: g.URL, State: ProposedOpen, Head: g.SHA},
		base:     g.Target, fork: g.SourceProject != g.TargetProject,
	}
	switch g.State {
	case "merged":
		l.State = ProposedMerged
	case "closed":
		l.State = ProposedClosed
	}
	return l
}

// gitlabProposing opens merge requests.
// https://docs.gitlab.com/api/merge_requests/#list-project-merge-requests, #create-mr
func gitlabProposing() *proposing {
	at := func(r repository) string {
		return join(r.root(), "api", "v4", "projects", r.owner+"/"+r.name, "merge_requests")
	}
	return &proposing{
		from: func(r repository, branch, base string) listing[listed] {
			query := url.Values{
				"state": {"all"}, "source_branch": {branch}, "target_branch": {base}, "order_by": {"created_at"}, "sort": {"desc"},
				"per_page": {strconv.Itoa(perPage)}, "page": {"1"},
			}
			return listing[listed]{first: reads(at(r)+"?"+query.Encode(), nil), read: readAll(gitlabProposal.listed), next: nextByLink}
		},
		open: func(r repository, p Proposal) request {
			return request{to: at(r), method: http.MethodPost, body: map[string]any{
				"title": p.Title, "description": p.Body, "source_branch": p.Branch, "target_branch": p.Base, "remove_source_branch": true,
			}}
		},
		one: readOne(gitlabProposal.listed),
		opened: func(r repository, base string) listing[listed] {
			query := url.Values{
				"state": {"opened"}, "target_branch": {base}, "order_by": {"created_at"}, "sort": {"desc"},
				"per_page": {strconv.Itoa(perPage)}, "page": {"1"},
			}
			return listing[listed]{first: reads(at(r)+"?"+query.Encode(), nil), read: readAll(gitlabProposal.listed), next: nextByLink}
		},
		amend: func(r repository, number int, a Amendment) request {
			return request{method: http.MethodPut, to: join(at(r), strconv.Itoa(number)), body: a.fields("description", "state_event", "close")}
		},
	}
}
