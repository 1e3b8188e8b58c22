package report

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// azureDevOps posts on Azure DevOps Services and Server, with a personal access token.
// https://learn.microsoft.com/rest/api/azure/devops/git/statuses/create
func azureDevOps() adapter {
	return adapter{
		locate: locateOnAzure,
		credentials: func(r reader) (credentials, error) {
			token, err := r.need(keyToken)
			if err != nil {
				return nil, err
			}
			return basic("", token), nil
		},
		review: azureReview(),
		page: func(r repository, commit, folder string) string {
			page := r.page(r.owner, "_git", r.name)
			page.RawQuery = url.Values{"path": {path.Join("/", folder)}, "version": {"GC" + commit}}.Encode()
			return page.String()
		},
		status: func(r repository, s Status) request {
			to := azureAPI(r, "commits", s.Commit, "statuses")
			return request{to: to + "?api-version=" + azureVersion, body: azureStatusOf(s)}
		},
		meant: func(a answer, _ Status) int {
			// A token that it does not take leads to the page for signing in: by a redirect, or
			// at once with 203. https://github.com/microsoft/azure-devops-auth-samples/issues/52
			redirected := a.code >= http.StatusMultipleChoices && a.code < http.StatusBadRequest
			if a.code == http.StatusNonAuthoritativeInfo || redirected && strings.Contains(a.header.Get("Location"), "_signin") {
				return http.StatusUnauthorized
			}
			return a.code
		},
	}
}

// azureVersion is a version of the API that Services and Server from 2020 on have.
const azureVersion = "6.0"

// azureStatus is the body that Azure DevOps takes.
type azureStatus struct {
	State       string       `json:"state"`
	Description string       `json:"description"`
	TargetURL   string       `json:"targetUrl,omitempty"`
	Context     azureContext `json:"context"`
}

// azureContext names a status. People read it as genre/name.
type azureContext struct {
	Genre string `json:"genre,omitempty"`
	Name  string `json:"name"`
}

func azureStatusOf(s Status) azureStatus {
	genre, name, two := strings.Cut(shorten(s.Context, longestName), "/")
	if !two {
		genre, name = "", genre
	}
	return azureStatus{
		State: azureState(s.State), Description: Truncate(s.Description), TargetURL: s.TargetURL,
		Context: azureContext{Genre: genre, Name: name},
	}
}

// azureState is a state in Azure DevOps' words. Its state "error" means that the check itself did not work.
func azureState(s State) string {
	switch s {
	case Success:
		return "succeeded"
	case Failure:
		return "failed"
	case Pending:
	}
	return "pending"
}

// locateOnAzure reads organization/project/_git/repository, and
// collection/project/_git/repository of a Server. A repository that is called as its
// project is stands without it on dev.azure.com and visualstudio.com.
func locateOnAzure(host string, path []string) (place, string) {
	i := slices.Index(path, "_git")
	if i < 0 || i != len(path)-2 {
		return place{}, "has no project/_git/repository in its path"
	}
	before, name := path[:i], path[i+1]
	least := 1
	if host == "dev.azure.com" {
		least = 2 // the organization
	}
	if len(before) < least {
		return place{below: before, owner: name, name: name}, ""
	}
	return place{below: before[:i-1], owner: before[i-1], name: name}, ""
}
