package report

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// githubUser is a user on GitHub, Gitea and Forgejo.
type githubUser struct {
	Login string `json:"login"`
}

// githubPull is what is read of a pull request there.
type githubPull struct {
	Number     int        `json:"number"`
	User       githubUser `json:"user"`
	Head, Base githubSide
}

// githubSide is one of the two branches. The repository of a head is null once it was deleted.
type githubSide struct {
	Ref  string `json:"ref"`
	SHA  string `json:"sha"`
	Repo *struct {
		ID int64 `json:"id"`
	} `json:"repo"`
}

// isFork says whether a head is of another repository than the base.
func isFork(head, base githubSide) bool {
	return head.Repo == nil || base.Repo == nil || head.Repo.ID != base.Repo.ID
}

func (p githubPull) pull() PullRequest {
	return PullRequest{
		Number: p.Number, Head: p.Head.SHA, Ref: fmt.Sprintf("refs/pull/%d/head", p.Number), Base: p.Base.Ref, Author: p.User.Login,
		Fork: isFork(p.Head, p.Base),
	}
}

// giteaPull is what is read of one on Gitea and Forgejo.
type giteaPull struct {
	githubPull
	Head struct {
		githubSide
		Label string `json:"label"`
	} `json:"head"`
}

// pull counts one that was pushed to refs/for/, which everybody may who can read the repository, as
// one from a fork: it names the repository itself as that of its head, and no branch.
// https://docs.gitea.com/usage/agit
func (p giteaPull) pull() PullRequest {
	p.githubPull.Head = p.Head.githubSide
	one := p.githubPull.pull()
	one.Fork = one.Fork || p.Head.Label == ""
	return one
}

// githubComment is a comment there.
type githubComment struct {
	ID   int64      `json:"id"`
	Body string     `json:"body"`
	User githubUser `json:"user"`
}

func (c githubComment) comment() Comment {
	return Comment{ID: c.ID, Body: c.Body, author: c.User.Login}
}

// commented is the body of a comment.
type commented struct {
	Body string `json:"body"`
}

// withHTML is the markup of GitHub, which takes 65,536 characters, and of those that take more.
func withHTML() Markup { return Markup{HTML: true, Most: 60_000} }

// githubReview reads and comments on pull requests.
// https://docs.github.com/rest/pulls/pulls, https://docs.github.com/rest/issues/comments, https://docs.github.com/rest/users/users
func githubReview() *reviewing {
	return likeGithub(githubAPI, githubHeader(), "per_page", func(base string) url.Values {
		return url.Values{"state": {"open"}, "sort": {"created"}, "direction": {"desc"}, "base": {base}}
	})
}

// giteaReview is the same below another root. Gitea has no parameter for the branch in all
// versions; it lists the newest first by itself.
// https://docs.gitea.com/api, GET /repos/{owner}/{repo}/pulls, GET /repos/{owner}/{repo}/issues/{index}/comments, GET /user
func giteaReview() *reviewing {
	r := likeGithub(func(r repository) string { return join(r.root(), "api", "v1") }, nil, "limit", func(string) url.Values {
		return url.Values{"state": {"open"}}
	})
	list := r.pulls
	r.pulls = func(of repository, base string) listing[PullRequest] {
		l := list(of, base)
		l.read = readAll(giteaPull.pull)
		return l
	}
	r.selfRight = "read its own user (the scope read:user)"
	return r
}

func likeGithub(root func(repository) string, header http.Header, limit string, listed func(base string) url.Values) *reviewing {
	at := func(r repository, query url.Values, segments ...string) request {
		query.Set(limit, strconv.Itoa(perPage))
		query.Set("page", "1")
		to := join(root(r), append([]string{"repos", r.owner, r.name}, segments...)...)
		return reads(to+"?"+query.Encode(), header)
	}
	return &reviewing{
		markup: withHTML(),
		pulls: func(r repository, base string) listing[PullRequest] {
			return listing[PullRequest]{first: at(r, listed(base), "pulls"), read: readAll(githubPull.pull), next: nextByLink}
		},
		comments: func(r repository, number int) listing[Comment] {
			return listing[Comment]{first: at(r, url.Values{}, "issues", strconv.Itoa(number), "comments"), read: readAll(githubComment.comment), next: nextByLink}
		},
		write: func(r repository, number int, of Comment, text string) request {
			issues := join(root(r), "repos", r.owner, r.name, "issues")
			if of.ID != 0 {
				return request{method: http.MethodPatch, to: join(issues, "comments", strconv.FormatInt(of.ID, 10)), header: header, body: commented{text}}
			}
			return request{to: join(issues, strconv.Itoa(number), "comments"), header: header, body: commented{text}}
		},
		written: madeOf(githubComment.comment),
		self:    func(r repository) request { return reads(join(root(r), "user"), header) },
		name:    login,
	}
}
