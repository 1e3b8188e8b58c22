package report

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// gitlab posts on GitLab. All of the path is the project: there may be groups
// within groups, so an instance below a folder cannot be told from them.
// https://docs.gitlab.com/api/commits/#set-commit-pipeline-status
type gitlab struct {
	wire
	repository repository
}

// gitlabStatus is the body that GitLab takes.
type gitlabStatus struct {
	State       string `json:"state"`
	TargetURL   string `json:"target_url,omitempty"`
	Description string `json:"description"`
	Name        string `json:"name"`
}

// Post posts one status.
func (g *gitlab) Post(ctx context.Context, s Status) error {
	header := http.Header{}
	header.Set("Private-Token", g.token)
	header.Set("Accept", "application/json")
	project := url.PathEscape(g.repository.String())
	to := g.repository.scheme + "://" + g.repository.host + "/api/v4/projects/" + project + "/statuses/" + s.Commit
	a, err := g.post(ctx, to, header, gitlabStatus{
		State: gitlabState(s.State), TargetURL: s.TargetURL, Description: Truncate(s.Description), Name: s.Context,
	})
	if err != nil {
		return err
	}
	// GitLab refuses to set a state that the status has already; then it is
	// there, with the description of the first time.
	if a.code == http.StatusBadRequest && strings.HasPrefix(a.said, "Cannot transition status") && strings.Contains(a.said, "from :"+gitlabState(s.State)) {
		return nil
	}
	return judge(a, g.repository, s)
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
