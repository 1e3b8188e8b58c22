package report

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

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

// gitlabPull is what is read of a merge request.
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
