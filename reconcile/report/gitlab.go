package report

import (
	"net/http"
	"strings"
)

// gitlab posts on GitLab. All of the path is the project: there may be groups
// within groups, so an instance below a folder cannot be told from them.
// https://docs.gitlab.com/api/commits/#set-commit-pipeline-status
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
				to:   join(r.root(), "api", "v4", "projects", r.owner+"/"+r.name, "statuses", s.Commit),
				body: gitlabStatus{State: gitlabState(s.State), TargetURL: s.TargetURL, Description: Truncate(s.Description), Name: shorten(s.Context, longestName)},
			}
		},
		meant: func(a answer, s Status) int {
			// It refuses to set a state that the status has already; then it is there, with
			// the description of the first time.
			if a.code == http.StatusBadRequest && strings.HasPrefix(a.said, "Cannot transition status") && strings.Contains(a.said, "from :"+gitlabState(s.State)) {
				return http.StatusOK
			}
			return a.code
		},
	}
}

// gitlabStatus is the body that GitLab takes.
type gitlabStatus struct {
	State       string `json:"state"`
	TargetURL   string `json:"target_url,omitempty"`
	Description string `json:"description"`
	Name        string `json:"name"`
}

// gitlabState is a state in GitLab's words.
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
