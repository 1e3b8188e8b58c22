package report

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// githubProposal is what is read of a pull request on GitHub, Gitea and Forgejo.
type githubProposal struct {
	URL    string  `json:"html_url"`
	State  string  `json:"state"`
	Merged *string `json:"merged_at"`
	Head   struct {
		githubSide
		// Label is the branch's name, on Gitea, where Ref is another once it was deleted.
		Label string `json:"label"`
	} `json:"head"`
	Base githubSide `json:"base"`
}

func (g githubProposal) listed() listed {
	l := listed{
		Proposed: Proposed{URL: g.URL, State: ProposedOpen, Head: g.Head.SHA}, branch: g.Head.Ref, base: g.Base.Ref,
		fork: isFork(g.Head.githubSide, g.Base),
	}
	switch {
	case g.Merged != nil:
		l.State = ProposedMerged
	case g.State == "closed":
		l.State = ProposedClosed
	}
	return l
}

// githubProposed is the body that GitHub, Gitea and Forgejo take.
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
	}
}

// giteaProposing is the same below another root. Gitea lists by no branch in all versions, and calls
// the branch of a pull request by another name once it was deleted.
// https://docs.gitea.com/api, GET and POST /repos/{owner}/{repo}/pulls, GET …/pulls/{base}/{head}
func giteaProposing() *proposing {
	at := func(r repository) string { return join(r.root(), "api", "v1", "repos", r.owner, r.name, "pulls") }
	labelled := func(g githubProposal) listed {
		l := g.listed()
		l.branch = g.Head.Label
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
		one: readOne(githubProposal.listed),
	}
}

// gitlabProposal is what is read of a merge request to propose.
type gitlabProposal struct {
	URL           string `json:"web_url"`
	State         string `json:"state"`
	SHA           string `json:"sha"`
	Source        string `json:"source_branch"`
	Target        string `json:"target_branch"`
	SourceProject int64  `json:"source_project_id"`
	TargetProject int64  `json:"target_project_id"`
}

func (g gitlabProposal) listed() listed {
	l := listed{Proposed: Proposed{URL: g.URL, State: ProposedOpen, Head: g.SHA}, branch: g.Source, base: g.Target, fork: g.SourceProject != g.TargetProject}
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
	}
}
