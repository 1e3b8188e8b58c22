package report

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// githubPull is what is read of a pull request on GitHub, Gitea and Forgejo.
type githubPull struct {
	Number int `json:"number"`
	User   struct {
		Login string `json:"login"`
	} `json:"user"`
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

func readGithubPulls(body []byte) ([]PullRequest, error) {
	var listed []githubPull
	err := json.Unmarshal(body, &listed)
	found := make([]PullRequest, 0, len(listed))
	for _, one := range listed {
		found = append(found, PullRequest{
			Number: one.Number, Head: one.Head.SHA, Ref: fmt.Sprintf("refs/pull/%d/head", one.Number), Base: one.Base.Ref, Author: one.User.Login,
			Fork: one.Head.Repo == nil || one.Base.Repo == nil || one.Head.Repo.ID != one.Base.Repo.ID,
		})
	}
	return found, err
}

// commented is the body of a comment.
type commented struct {
	Body string `json:"body"`
}

// githubReview reads and comments on pull requests.
// https://docs.github.com/rest/pulls/pulls, https://docs.github.com/rest/issues/comments
func githubReview() *reviewing {
	return likeGithub(githubAPI, githubHeader(), "per_page", func(base string) url.Values {
		return url.Values{"state": {"open"}, "sort": {"created"}, "direction": {"desc"}, "base": {base}}
	})
}

// giteaReview is the same below another root. Gitea has no parameter for the branch in all
// versions; it lists the newest first by itself.
// https://docs.gitea.com/api, GET /repos/{owner}/{repo}/pulls, GET /repos/{owner}/{repo}/issues/{index}/comments
func giteaReview() *reviewing {
	return likeGithub(func(r repository) string { return join(r.root(), "api", "v1") }, nil, "limit", func(string) url.Values {
		return url.Values{"state": {"open"}}
	})
}

func likeGithub(root func(repository) string, header http.Header, limit string, listed func(base string) url.Values) *reviewing {
	at := func(r repository, query url.Values, page int, segments ...string) request {
		query.Set(limit, strconv.Itoa(perPage))
		query.Set("page", strconv.Itoa(page))
		to := join(root(r), append([]string{"repos", r.owner, r.name}, segments...)...)
		return request{to: to + "?" + query.Encode(), header: header}
	}
	return &reviewing{
		list: func(r repository, base string, page int) request { return at(r, listed(base), page, "pulls") },
		read: readGithubPulls,
		comments: func(r repository, number, page int) request {
			return at(r, url.Values{}, page, "issues", strconv.Itoa(number), "comments")
		},
		write: func(r repository, number int, id int64, text string) request {
			issues := join(root(r), "repos", r.owner, r.name, "issues")
			if id != 0 {
				return request{method: http.MethodPatch, to: join(issues, "comments", strconv.FormatInt(id, 10)), header: header, body: commented{text}}
			}
			return request{to: join(issues, strconv.Itoa(number), "comments"), header: header, body: commented{text}}
		},
	}
}

// gitlabReview reads merge requests, and writes notes on them.
// https://docs.gitlab.com/api/merge_requests/#list-project-merge-requests, https://docs.gitlab.com/api/notes/#merge-requests
func gitlabReview() *reviewing {
	at := func(r repository, segments ...string) string {
		return join(r.root(), append([]string{"api", "v4", "projects", r.owner + "/" + r.name, "merge_requests"}, segments...)...)
	}
	paged := func(to string, query url.Values, page int) request {
		query.Set("per_page", strconv.Itoa(perPage))
		query.Set("page", strconv.Itoa(page))
		return request{to: to + "?" + query.Encode()}
	}
	return &reviewing{
		list: func(r repository, base string, page int) request {
			return paged(at(r), url.Values{"state": {"opened"}, "target_branch": {base}, "order_by": {"created_at"}, "sort": {"desc"}}, page)
		},
		read: readGitlabPulls,
		comments: func(r repository, number, page int) request {
			return paged(at(r, strconv.Itoa(number), "notes"), url.Values{"order_by": {"created_at"}, "sort": {"asc"}}, page)
		},
		write: func(r repository, number int, id int64, text string) request {
			notes := at(r, strconv.Itoa(number), "notes")
			if id != 0 {
				return request{method: http.MethodPut, to: join(notes, strconv.FormatInt(id, 10)), body: commented{text}}
			}
			return request{to: notes, body: commented{text}}
		},
	}
}

func readGitlabPulls(body []byte) ([]PullRequest, error) {
	var listed []struct {
		IID    int    `json:"iid"`
		SHA    string `json:"sha"`
		Target string `json:"target_branch"`
		Author struct {
			Username string `json:"username"`
		} `json:"author"`
		SourceProject int64 `json:"source_project_id"`
		TargetProject int64 `json:"target_project_id"`
	}
	err := json.Unmarshal(body, &listed)
	found := make([]PullRequest, 0, len(listed))
	for _, one := range listed {
		found = append(found, PullRequest{
			Number: one.IID, Head: one.SHA, Ref: fmt.Sprintf("refs/merge-requests/%d/head", one.IID), Base: one.Target,
			Author: one.Author.Username, Fork: one.SourceProject != one.TargetProject,
		})
	}
	return found, err
}
