package report

import (
	"context"
	"net/http"
)

// gitea posts on Gitea, which may be served below a folder.
// https://docs.gitea.com/api, POST /repos/{owner}/{repo}/statuses/{sha}
type gitea struct {
	wire
	repository repository
}

// Post posts one status.
func (g *gitea) Post(ctx context.Context, s Status) error {
	below, owner, name := g.repository.owned()
	header := http.Header{}
	header.Set("Authorization", "token "+g.token)
	header.Set("Accept", "application/json")
	to := g.repository.scheme + "://" + g.repository.host + below + "/api/v1/repos/" + owner + "/" + name + "/statuses/" + s.Commit
	a, err := g.post(ctx, to, header, bodyOf(s))
	if err != nil {
		return err
	}
	return judge(a, g.repository, s)
}
