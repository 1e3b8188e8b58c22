package githost

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// PullRequest is a pull request as Gitea returns it.
type PullRequest struct {
	Number int    `json:"number"`
	URL    string `json:"html_url"`
	State  string `json:"state"`
	Title  string `json:"title"`
	Body   string `json:"body"`
	Head   struct {
		Branch string `json:"label"`
	} `json:"head"`
}

// PullRequests returns all of a repository, the newest first.
func (h *Host) PullRequests(ctx context.Context, r Repository) ([]PullRequest, error) {
	var found []PullRequest
	if err := h.call(ctx, h.Admin, http.MethodGet, r.path()+"/pulls?state=all", nil, &found); err != nil {
		return nil, fmt.Errorf("list the pull requests of %s/%s: %w", r.Owner, r.Name, err)
	}
	return found, nil
}

// MergePullRequest merges one with a merge commit.
func (h *Host) MergePullRequest(ctx context.Context, r Repository, number int) error {
	err := h.call(ctx, h.Admin, http.MethodPost, fmt.Sprintf("%s/pulls/%d/merge", r.path(), number), map[string]any{"Do": "merge"}, nil)
	if err != nil {
		return fmt.Errorf("merge pull request %d of %s/%s: %w", number, r.Owner, r.Name, err)
	}
	return nil
}

// OpenPullRequest opens a pull request to merge branch head into base.
func (h *Host) OpenPullRequest(ctx context.Context, r Repository, title, head, base string) (PullRequest, error) {
	return h.OpenPullRequestAs(ctx, h.Admin, r, title, head, base)
}

// OpenPullRequestAs does so as a user; the branch of a fork is user:branch.
func (h *Host) OpenPullRequestAs(ctx context.Context, as User, r Repository, title, head, base string) (PullRequest, error) {
	var made PullRequest
	err := h.call(ctx, as, http.MethodPost, r.path()+"/pulls",
		map[string]any{"title": title, "head": head, "base": base}, &made)
	if err != nil {
		return PullRequest{}, fmt.Errorf("open a pull request for %s in %s/%s: %w", head, r.Owner, r.Name, err)
	}
	return made, nil
}

// ClosePullRequest closes one that is not merged.
func (h *Host) ClosePullRequest(ctx context.Context, r Repository, number int) error {
	err := h.call(ctx, h.Admin, http.MethodPatch, fmt.Sprintf("%s/pulls/%d", r.path(), number), map[string]any{"state": "closed"}, nil)
	if err != nil {
		return fmt.Errorf("close pull request %d of %s/%s: %w", number, r.Owner, r.Name, err)
	}
	return nil
}

// Comment is a comment on a pull request as Gitea returns it.
type Comment struct {
	ID   int64  `json:"id"`
	Body string `json:"body"`
}

// Comments returns those on a pull request, the oldest first.
func (h *Host) Comments(ctx context.Context, r Repository, number int) ([]Comment, error) {
	var found []Comment
	if err := h.call(ctx, h.Admin, http.MethodGet, fmt.Sprintf("%s/issues/%d/comments", r.path(), number), nil, &found); err != nil {
		return nil, fmt.Errorf("read the comments on pull request %d of %s/%s: %w", number, r.Owner, r.Name, err)
	}
	return found, nil
}

// Fork allows a user to read a repository and forks it.
func (h *Host) Fork(ctx context.Context, u User, r Repository) (Repository, error) {
	err := h.call(ctx, h.Admin, http.MethodPut, r.path()+"/collaborators/"+url.PathEscape(u.Name), map[string]any{"permission": "read"}, nil)
	if err == nil {
		err = h.call(ctx, u, http.MethodPost, r.path()+"/forks", map[string]any{}, nil)
	}
	if err != nil {
		return Repository{}, fmt.Errorf("fork %s/%s for %s: %w", r.Owner, r.Name, u.Name, err)
	}
	return Repository{Owner: u.Name, Name: r.Name, HTTPURL: h.URL + "/" + u.Name + "/" + r.Name + ".git"}, nil
}
