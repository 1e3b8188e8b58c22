package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Reviewer reads the open pull requests of a repository, and comments on them.
type Reviewer interface {
	// PullRequests returns the open ones that target a branch, newest first. more reports whether there are older ones
	// that were not read (MaxPullRequests). No host reports how many.
	PullRequests(ctx context.Context, base string) (open []PullRequest, more bool, err error)
	// OwnComments returns those on a pull request that the token's own user wrote, oldest first.
	OwnComments(ctx context.Context, number int) ([]Comment, error)
	// OwnComment is one of them as it is now. It has no ID if it was deleted, or is of another user than the token's.
	OwnComment(ctx context.Context, number int, of Comment) (Comment, error)
	// Comment writes a text in place of an own comment, or as a new one where that has no ID. It
	// returns the comment as it is then.
	Comment(ctx context.Context, number int, of Comment, text string) (Comment, error)
}

// PullRequest is an open pull request on its host.
type PullRequest struct {
	Number int
	// Head is the full hash of its current commit, and Ref the reference to fetch it by: empty if no reference of the
	// repository leads to it, so that it is fetched by its hash.
	Head, Ref string
	// Base is the branch that it targets.
	Base   string
	Author string
	// Fork reports whether it comes from another repository.
	Fork bool
}

// Comment is one on a pull request. In JSON it has what it is found by.
type Comment struct {
	ID int64 `json:"id"`
	// Thread is the one that it is in, on Azure DevOps, and Version what an edit replaces, on
	// Bitbucket Data Center. Both are 0 elsewhere.
	Thread  int64  `json:"thread,omitempty"`
	Version int    `json:"-"`
	Body    string `json:"-"`

	author string
}

// reviewing defines the requests for pull requests on one kind of host. It does no I/O.
type reviewing struct {
	markup Markup
	// pulls are the open ones into a branch, comments those on one, and comment asks for one of these.
	pulls    func(r repository, base string) listing[PullRequest]
	comments func(r repository, number int) listing[Comment]
	comment  func(r repository, number int, of Comment) request
	// write writes a comment, in place of one that has an ID; written reads what came of it, and what comment asks for.
	write   func(r repository, number int, of Comment, text string) request
	written func(body []byte, of Comment) (Comment, error)
	// self requests the token's user, and name reads its name as the author of comments.
	self func(repository) request
	name func(answer) (string, error)
	// selfRight is the permission that a token needs for that; empty if it needs none.
	selfRight string
	// whole requests a commit by its abbreviated hash, and hash reads the full hash; nil if lists have full hashes.
	whole func(r repository, short string) request
	hash  func(body []byte) (string, error)
}

// Markup is the markup that a comment may contain.
type Markup struct {
	// HTML reports whether tags can fold and hide their content. Other hosts show them as text.
	HTML bool
	// Most limits the bytes of a comment.
	Most int
}

// MarkupOf returns the markup of comments on a kind of host.
func MarkupOf(provider string) Markup {
	if r := adapters()[provider].review; r != nil {
		return r.markup
	}
	return Markup{}
}

var (
	readsPulls    = Task{What: "list the open pull requests", Right: "read pull requests"}
	readsHead     = Task{What: "read the head of a pull request", Right: "read the repository"}
	readsComments = Task{What: "read the comments on a pull request", Right: "read pull requests"}
	writesComment = Task{What: "comment on a pull request", Right: "comment on pull requests"}
)

// Reviewer returns the client for the pull requests of a repository. Its arguments and error are like Host's; comments
// reports whether it is used to write comments.
func (h *Hosts) Reviewer(provider, repository string, secret map[string][]byte, comments bool) (Reviewer, error) {
	rights := permissions{"pull_requests": "read"}
	if comments {
		rights["pull_requests"] = "write"
	}
	p, err := h.open(provider, repository, secret, rights)
	if err != nil {
		return nil, err
	}
	if p.review == nil {
		return nil, &RepositoryError{
			URL: Clean(repository), Reason: "is on a host of the kind " + provider + ", whose pull requests are not followed",
		}
	}
	p.credentialsHash = credentialsHash(provider, p.repository, secret)
	return p, nil
}

// PullRequests implements Reviewer.
func (p *poster) PullRequests(ctx context.Context, base string) (open []PullRequest, more bool, err error) {
	listed, more, err := pages(ctx, p, readsPulls, p.review.pulls(p.repository, base))
	if err != nil {
		return nil, false, err
	}
	listed = slices.DeleteFunc(listed, func(one PullRequest) bool { return one.Base != base || one.Head == "" })
	if p.review.whole == nil {
		return listed, more, nil
	}
	open, err = p.complete(ctx, listed)
	return open, more, err
}

// OwnComments implements Reviewer. It ignores comments of other users, whatever they contain: any commenter can copy
// one of ours, and only our own may be edited.
func (p *poster) OwnComments(ctx context.Context, number int) ([]Comment, error) {
	self, err := p.self(ctx)
	if err != nil {
		return nil, err
	}
	found, _, err := pages(ctx, p, readsComments, p.review.comments(p.repository, number))
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(one Comment) bool { return !strings.EqualFold(one.author, self) })
	slices.SortFunc(found, func(a, b Comment) int { return cmp.Or(cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.ID, b.ID)) })
	return found, nil
}

// OwnComment asks for one only: on a pull request with many comments OwnComments may not come to it.
func (p *poster) OwnComment(ctx context.Context, number int, of Comment) (Comment, error) {
	self, err := p.self(ctx)
	if err != nil {
		return Comment{}, err
	}
	a, err := p.get(ctx, readsComments, p.review.comment(p.repository, number, of))
	if errors.As(err, new(*NotFoundError)) {
		return Comment{}, nil
	}
	if err != nil {
		return Comment{}, err
	}
	found, err := p.review.written(a.body, of)
	if err != nil {
		return Comment{}, p.unreadable(readsComments, err)
	}
	if !strings.EqualFold(found.author, self) {
		return Comment{}, nil
	}
	return found, nil
}

// Comment writes one.
func (p *poster) Comment(ctx context.Context, number int, of Comment, text string) (Comment, error) {
	a, err := p.get(ctx, writesComment, p.review.write(p.repository, number, of, text))
	if err != nil {
		return Comment{}, err
	}
	made, err := p.review.written(a.body, of)
	if err == nil && made.ID == 0 {
		err = errNoComment
	}
	if err != nil {
		return Comment{}, p.unreadable(writesComment, err)
	}
	return made, nil
}

// get makes a request for a task, and checks the response.
func (p *poster) get(ctx context.Context, task Task, r request) (answer, error) {
	r.task, r.long = task, true
	a, err := p.request(ctx, r)
	if err == nil {
		err = p.responseError(a, task, Status{})
	}
	return a, err
}

func (p *poster) unreadable(task Task, err error) error {
	return &UnavailableError{Task: task, Host: p.repository.host, Err: fmt.Errorf("its answer cannot be read: %w", err)}
}

// reads returns a GET request.
func reads(to string, header http.Header) request {
	return request{method: http.MethodGet, to: to, header: header}
}

// madeOf parses a written comment from a response that contains all of it.
func madeOf[T any](as func(T) Comment) func([]byte, Comment) (Comment, error) {
	read := readOne(as)
	return func(body []byte, _ Comment) (Comment, error) { return read(body) }
}

// githubUser is a user on GitHub, Gitea and Forgejo.
type githubUser struct {
	Login string `json:"login"`
}

// githubPull contains the fields that are read of a pull request there.
type githubPull struct {
	Number     int        `json:"number"`
	User       githubUser `json:"user"`
	Head, Base githubSide
}

// githubSide is one of the two branches. Repo is null after the head's repository was deleted.
type githubSide struct {
	Ref  string `json:"ref"`
	SHA  string `json:"sha"`
	Repo *struct {
		ID int64 `json:"id"`
	} `json:"repo"`
}

// isFork reports whether a head is in another repository than the base.
func isFork(head, base githubSide) bool {
	return head.Repo == nil || base.Repo == nil || head.Repo.ID != base.Repo.ID
}

func (p githubPull) pull() PullRequest {
	return PullRequest{
		Number: p.Number, Head: p.Head.SHA, Ref: fmt.Sprintf("refs/pull/%d/head", p.Number), Base: p.Base.Ref, Author: p.User.Login,
		Fork: isFork(p.Head, p.Base),
	}
}

// giteaPull contains the fields that are read of one on Gitea and Forgejo.
type giteaPull struct {
	githubPull
	Head struct {
		githubSide
		Label string `json:"label"`
	} `json:"head"`
}

// pull treats one that was pushed to refs/for/, which everybody with read access may do, as one from a fork: the
// repository of its head is the repository itself, without a branch. https://docs.gitea.com/usage/agit
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

// withHTML is the markup of GitHub, which accepts 65,536 characters, and of hosts that accept more.
func withHTML() Markup { return Markup{HTML: true, Most: 60_000} }

// githubReview reads and comments on pull requests.
// https://docs.github.com/rest/pulls/pulls, https://docs.github.com/rest/issues/comments, https://docs.github.com/rest/users/users
func githubReview() *reviewing {
	return likeGithub(githubAPI, githubHeader(), "per_page", func(base string) url.Values {
		return url.Values{"state": {"open"}, "sort": {"created"}, "direction": {"desc"}, "base": {base}}
	})
}

// giteaReview is the same with another root. Not all versions of Gitea have a parameter for the branch; it lists the
// newest first by default. https://docs.gitea.com/api, GET /repos/{owner}/{repo}/pulls, GET
// /repos/{owner}/{repo}/issues/{index}/comments, GET /user
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
			return listing[Comment]{
				first: at(r, url.Values{}, "issues", strconv.Itoa(number), "comments"), read: readAll(githubComment.comment), next: nextByLink,
			}
		},
		comment: func(r repository, _ int, of Comment) request {
			return reads(join(root(r), "repos", r.owner, r.name, "issues", "comments", strconv.FormatInt(of.ID, 10)), header)
		},
		write: func(r repository, number int, of Comment, text string) request {
			issues := join(root(r), "repos", r.owner, r.name, "issues")
			if of.ID != 0 {
				return request{
					method: http.MethodPatch, to: join(issues, "comments", strconv.FormatInt(of.ID, 10)), header: header, body: commented{text},
				}
			}
			return request{to: join(issues, strconv.Itoa(number), "comments"), header: header, body: commented{text}}
		},
		written: madeOf(githubComment.comment),
		self:    func(r repository) request { return reads(join(root(r), "user"), header) },
		name:    login,
	}
}
