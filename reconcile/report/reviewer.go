package report

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Reviewer reads the open pull requests of a repository, and comments on them.
type Reviewer interface {
	// PullRequests are the open ones that would go into a branch, the newest first. more says
	// that there are some beyond the pages that are read.
	PullRequests(ctx context.Context, base string) (open []PullRequest, more bool, err error)
	// Comments are those on a pull request, the oldest first.
	Comments(ctx context.Context, number int) ([]Comment, error)
	// Comment writes one, in place of that with the id; 0 for a new one. It returns its id.
	Comment(ctx context.Context, number int, id int64, text string) (int64, error)
}

// PullRequest is an open pull request, as its host has it.
type PullRequest struct {
	Number int
	// Head is the full hash of the commit that it has now, and Ref where that is fetched.
	Head, Ref string
	// Base is the branch that it would go into.
	Base   string
	Author string
	// Fork says that it comes from another repository.
	Fork bool
}

// Comment is one on a pull request.
type Comment struct {
	ID   int64  `json:"id"`
	Body string `json:"body"`
}

// reviewing is how one kind of host speaks of pull requests. It has no I/O.
type reviewing struct {
	// list asks for a page of open ones, counted from 1, and read reads it.
	list func(r repository, base string, page int) request
	read func(body []byte) ([]PullRequest, error)
	// comments asks for a page of those on one, and write writes one, in place of that with
	// the id, if it is not 0.
	comments func(r repository, number, page int) request
	write    func(r repository, number int, id int64, text string) request
}

const (
	// maxListing bounds what is read of a page: GitHub takes some 25 KB for each pull request.
	maxListing = 8 << 20
	// mostPages is how many pages of one list are read.
	mostPages = 20
	// perPage is how many entries every host gives at a time.
	perPage = 50
)

var (
	readsPulls    = Task{What: "list the open pull requests", Right: "read pull requests"}
	readsComments = Task{What: "read the comments on a pull request", Right: "read pull requests"}
	writesComment = Task{What: "comment on a pull request", Right: "comment on pull requests"}
)

// Reviewer returns the client for the pull requests of a repository, likewise. comments says
// that it is to write some.
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
		return nil, &RepositoryError{URL: Clean(repository), Reason: "is on a host of the kind " + provider + ", whose pull requests are not followed"}
	}
	return p, nil
}

// PullRequests asks page by page.
func (p *poster) PullRequests(ctx context.Context, base string) (open []PullRequest, more bool, err error) {
	more, err = p.pages(ctx, readsPulls, func(page int) request { return p.review.list(p.repository, base, page) }, func(body []byte) error {
		listed, err := p.review.read(body)
		for _, one := range listed {
			if one.Base == base && one.Head != "" {
				open = append(open, one)
			}
		}
		return err
	})
	return open, more, err
}

// Comments asks page by page.
func (p *poster) Comments(ctx context.Context, number int) ([]Comment, error) {
	var found []Comment
	_, err := p.pages(ctx, readsComments, func(page int) request { return p.review.comments(p.repository, number, page) }, func(body []byte) error {
		var listed []Comment
		err := json.Unmarshal(body, &listed)
		found = append(found, listed...)
		return err
	})
	return found, err
}

// Comment writes one.
func (p *poster) Comment(ctx context.Context, number int, id int64, text string) (int64, error) {
	r := p.review.write(p.repository, number, id, text)
	r.task, r.most = writesComment, maxListing
	a, err := p.ask(ctx, r)
	if err == nil {
		err = judge(a, p.repository, writesComment, "")
	}
	if err != nil {
		return 0, err
	}
	var made Comment
	if err := json.Unmarshal(a.body, &made); err != nil {
		return 0, p.unreadable(writesComment, err)
	}
	return made.ID, nil
}

// pages reads a list until there is no page more; with more there are some that are not read.
func (p *poster) pages(ctx context.Context, task Task, page func(int) request, read func([]byte) error) (more bool, err error) {
	for n := 1; n <= mostPages; n++ {
		r := page(n)
		r.method, r.task, r.most = http.MethodGet, task, maxListing
		a, err := p.ask(ctx, r)
		if err == nil {
			err = judge(a, p.repository, task, "")
		}
		if err != nil {
			return false, err
		}
		if err := read(a.body); err != nil {
			return false, p.unreadable(task, err)
		}
		// https://www.rfc-editor.org/rfc/rfc8288: every one of these hosts says where to go on.
		if !strings.Contains(strings.Join(a.header.Values("Link"), ","), `rel="next"`) {
			return false, nil
		}
	}
	return true, nil
}

func (p *poster) unreadable(task Task, err error) error {
	return &UnavailableError{Task: task, Host: p.repository.host, Err: fmt.Errorf("its answer cannot be read: %w", err)}
}
