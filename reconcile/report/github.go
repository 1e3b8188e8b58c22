package report

import (
	"context"
	"net/http"
	"strings"
)

// github posts on github.com, on a tenant of ghe.com or on an Enterprise Server.
// https://docs.github.com/rest/commits/statuses
type github struct {
	wire
	repository repository
}

// status is the body that GitHub and Gitea take.
type status struct {
	State       State  `json:"state"`
	TargetURL   string `json:"target_url,omitempty"`
	Description string `json:"description"`
	Context     string `json:"context"`
}

func bodyOf(s Status) status {
	return status{State: s.State, TargetURL: s.TargetURL, Description: Truncate(s.Description), Context: s.Context}
}

// Post posts one status.
func (g *github) Post(ctx context.Context, s Status) error {
	_, owner, name := g.repository.owned()
	header := http.Header{}
	header.Set("Authorization", "Bearer "+g.token)
	header.Set("Accept", "application/vnd.github+json")
	header.Set("X-GitHub-Api-Version", "2022-11-28")
	a, err := g.post(ctx, g.api()+"/repos/"+owner+"/"+name+"/statuses/"+s.Commit, header, bodyOf(s))
	if err != nil {
		return err
	}
	// It says so of a commit that it has not, which a mirror may get yet.
	if a.code == http.StatusUnprocessableEntity && strings.HasPrefix(a.said, "No commit found") {
		a.code = http.StatusNotFound
	}
	return judge(a, g.repository, s)
}

// api is the root of the REST API.
func (g *github) api() string {
	r := g.repository
	switch host := strings.ToLower(r.host); {
	case host == "github.com", host == "www.github.com":
		return r.scheme + "://api.github.com"
	case strings.HasSuffix(host, ".ghe.com"):
		return r.scheme + "://api." + host
	}
	return r.scheme + "://" + r.host + "/api/v3"
}
