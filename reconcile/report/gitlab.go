package report

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// gitlab posts to GitLab. The whole path is the project, because groups may be nested, so an instance with a path
// prefix cannot be distinguished. https://docs.gitlab.com/api/commits/#set-commit-pipeline-status
func gitlab() adapter {
	return adapter{
		locate: func(host string, path []string) (place, string) {
			at, reason := lastTwo(host, path)
			return place{owner: strings.Join(append(at.below, at.owner), "/"), name: at.name}, reason
		},
		credentials: tokenIn("Private-Token", ""),
		review:      gitlabReview(),
		propose:     gitlabProposing(),
		page:        folderPage("-", "tree"),
		status: func(r repository, s Status) request {
			return request{
				to: join(r.root(), "api", "v4", "projects", r.owner+"/"+r.name, "statuses", s.Commit),
				body: gitlabStatus{
					State: gitlabState(s.State), TargetURL: s.TargetURL, Description: Truncate(s.Description), Name: shorten(s.Context, longestName),
				},
			}
		},
		codeOf: func(a answer, s Status) int {
			// It refuses to set a state that the status already has; then the status exists, with its first
			// description.
			if a.code == http.StatusBadRequest && strings.HasPrefix(a.message, "Cannot transition status") &&
				strings.Contains(a.message, "from :"+gitlabState(s.State)) {
				return http.StatusOK
			}
			return a.code
		},
	}
}

// gitlabStatus is the request body of GitLab.
type gitlabStatus struct {
	State       string `json:"state"`
	TargetURL   string `json:"target_url,omitempty"`
	Description string `json:"description"`
	Name        string `json:"name"`
}

// gitlabState returns GitLab's name of a state.
func gitlabState(s State) string {
	switch s {
	case Success:
		return "success"
	case Failure:
		return "failed"
	case Pending:
	}
	return "running"
}

// gitlabReview reads merge requests, and writes notes on them.
// https://docs.gitlab.com/api/merge_requests/#list-project-merge-requests, https://docs.gitlab.com/api/notes/#merge-requests, https://docs.gitlab.com/api/users/#get-the-current-user
func gitlabReview() *reviewing {
	at := func(r repository, segments ...string) string {
		return join(r.root(), append([]string{"api", "v4", "projects", r.owner + "/" + r.name, "merge_requests"}, segments...)...)
	}
	paged := func(to string, query url.Values) request {
		query.Set("per_page", strconv.Itoa(perPage))
		query.Set("page", "1")
		return reads(to+"?"+query.Encode(), nil)
	}
	return &reviewing{
		markup: withHTML(),
		pulls: func(r repository, base string) listing[PullRequest] {
			query := url.Values{"state": {"opened"}, "target_branch": {base}, "order_by": {"created_at"}, "sort": {"desc"}}
			return listing[PullRequest]{first: paged(at(r), query), read: readAll(gitlabPull.pull), next: nextByLink}
		},
		comments: func(r repository, number int) listing[Comment] {
			query := url.Values{"order_by": {"created_at"}, "sort": {"asc"}}
			return listing[Comment]{first: paged(at(r, strconv.Itoa(number), "notes"), query), read: readAll(gitlabNote.comment), next: nextByLink}
		},
		comment: func(r repository, number int, of Comment) request {
			return reads(at(r, strconv.Itoa(number), "notes", strconv.FormatInt(of.ID, 10)), nil)
		},
		write: func(r repository, number int, of Comment, text string) request {
			notes := at(r, strconv.Itoa(number), "notes")
			if of.ID != 0 {
				return request{method: http.MethodPut, to: join(notes, strconv.FormatInt(of.ID, 10)), body: commented{text}}
			}
			return request{to: notes, body: commented{text}}
		},
		written: madeOf(gitlabNote.comment),
		self:    func(r repository) request { return reads(join(r.root(), "api", "v4", "user"), nil) },
		name: func(a answer) (string, error) {
			var user gitlabUser
			err := json.Unmarshal(a.body, &user)
			return user.Username, err
		},
	}
}

type gitlabUser struct {
	Username string `json:"username"`
}

type gitlabNote struct {
	ID     int64      `json:"id"`
	Body   string     `json:"body"`
	Author gitlabUser `json:"author"`
}

func (n gitlabNote) comment() Comment {
	return Comment{ID: n.ID, Body: n.Body, author: n.Author.Username}
}

// gitlabPull contains the fields that are read of a merge request.
type gitlabPull struct {
	IID           int        `json:"iid"`
	SHA           string     `json:"sha"`
	Target        string     `json:"target_branch"`
	Author        gitlabUser `json:"author"`
	SourceProject int64      `json:"source_project_id"`
	TargetProject int64      `json:"target_project_id"`
}

func (p gitlabPull) pull() PullRequest {
	return PullRequest{
		Number: p.IID, Head: p.SHA, Ref: fmt.Sprintf("refs/merge-requests/%d/head", p.IID), Base: p.Target,
		Author: p.Author.Username, Fork: p.SourceProject != p.TargetProject,
	}
}
