package report

import (
	"net/http"
	"strings"
)

// github posts to github.com, a tenant of ghe.com or an Enterprise Server, with a token or as an app.
// https://docs.github.com/rest/commits/statuses
func github() adapter {
	return adapter{
		locate:      lastTwo,
		credentials: githubCredentials,
		review:      githubReview(),
		propose:     githubProposing(),
		page:        folderPage("tree"),
		status: func(r repository, s Status) request {
			return request{to: join(githubAPI(r), "repos", r.owner, r.name, "statuses", s.Commit), header: githubHeader(), body: bodyOf(s)}
		},
		codeOf: func(a answer, _ Status) int {
			// It reports an unknown commit like this; a mirror may still receive it.
			if a.code == http.StatusUnprocessableEntity && strings.HasPrefix(a.message, "No commit found") {
				return http.StatusNotFound
			}
			return a.code
		},
	}
}

// status is the request body of GitHub and Gitea.
type status struct {
	State       State  `json:"state"`
	TargetURL   string `json:"target_url,omitempty"`
	Description string `json:"description"`
	Context     string `json:"context"`
}

func bodyOf(s Status) status {
	return status{State: s.State, TargetURL: s.TargetURL, Description: Truncate(s.Description), Context: shorten(s.Context, longestName)}
}

func githubHeader() http.Header {
	return http.Header{"Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {"2022-11-28"}}
}

// githubAPI returns the root URL of the REST API.
func githubAPI(r repository) string {
	switch host := strings.ToLower(r.host); {
	case host == "github.com", host == "www.github.com":
		return r.scheme + "://api.github.com"
	case strings.HasSuffix(host, ".ghe.com"):
		return r.scheme + "://api." + host
	}
	return r.scheme + "://" + r.host + "/api/v3"
}

// githubCredentials reads a token or the key of an app.
func githubCredentials(r reader) (credentials, error) {
	switch asApp, hasToken := r.value(keyAppID) != "", r.value(keyToken) != ""; {
	case asApp && hasToken:
		return nil, &SecretError{Key: keyToken, Reason: "stands beside " + keyAppID + ": keep one of the two"}
	case asApp:
		return newApp(r)
	}
	return tokenIn("Authorization", "Bearer ")(r)
}

// gitea posts to Gitea and Forgejo, which may have a path prefix. https://docs.gitea.com/api,
// https://codeberg.org/api/swagger, POST /repos/{owner}/{repo}/statuses/{sha}
func gitea() adapter {
	return adapter{
		locate:      lastTwo,
		credentials: tokenIn("Authorization", "token "),
		review:      giteaReview(),
		propose:     giteaProposing(),
		page:        folderPage("src", "commit"),
		status: func(r repository, s Status) request {
			return request{to: join(r.root(), "api", "v1", "repos", r.owner, r.name, "statuses", s.Commit), body: bodyOf(s)}
		},
	}
}
