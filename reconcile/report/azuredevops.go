package report

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// azureDevOps posts to Azure DevOps Services and Server, with a personal access token.
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
		codeOf: func(a answer, _ Status) int {
			// A rejected token leads to the sign-in page: by a redirect, or directly with 203.
			// https://github.com/microsoft/azure-devops-auth-samples/issues/52
			redirected := a.code >= http.StatusMultipleChoices && a.code < http.StatusBadRequest
			if a.code == http.StatusNonAuthoritativeInfo || redirected && strings.Contains(a.header.Get("Location"), "_signin") {
				return http.StatusUnauthorized
			}
			return a.code
		},
	}
}

// azureVersion is an API version that Services and Server 2020 or later support.
const azureVersion = "6.0"

// azureStatus is the request body of Azure DevOps.
type azureStatus struct {
	State       string       `json:"state"`
	Description string       `json:"description"`
	TargetURL   string       `json:"targetUrl,omitempty"`
	Context     azureContext `json:"context"`
}

// azureContext identifies a status. It is displayed as genre/name.
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

// azureState returns Azure DevOps' name of a state. Its state "error" means that the check itself did not work.
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

// locateOnAzure reads organization/project/_git/repository, and collection/project/_git/repository of a Server. On
// dev.azure.com and visualstudio.com, the project is omitted if the repository has the same name.
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

// azureAPI returns the root URL of a repository's REST API.
func azureAPI(r repository, segments ...string) string {
	return join(r.root(), append([]string{r.owner, "_apis", "git", "repositories", r.name}, segments...)...)
}

// azureReview reads and comments on pull requests on Azure DevOps, where each comment is in a thread.
// https://learn.microsoft.com/rest/api/azure/devops/git/pull-requests/get-pull-requests,
// https://learn.microsoft.com/rest/api/azure/devops/git/pull-request-threads,
// https://learn.microsoft.com/rest/api/azure/devops/git/pull-request-thread-comments/update
func azureReview() *reviewing {
	at := func(r repository, query url.Values, segments ...string) string {
		query.Set("api-version", azureVersion)
		return azureAPI(r, append([]string{"pullRequests"}, segments...)...) + "?" + query.Encode()
	}
	one := func(r repository, number int, of Comment) string {
		return at(r, url.Values{}, strconv.Itoa(number), "threads", strconv.FormatInt(of.Thread, 10), "comments", strconv.FormatInt(of.ID, 10))
	}
	return &reviewing{
		markup: withHTML(),
		pulls: func(r repository, base string) listing[PullRequest] {
			query := url.Values{
				"searchCriteria.status": {"active"}, "searchCriteria.targetRefName": {branchRefs + base}, "$top": {strconv.Itoa(perPage)},
				"$skip": {"0"},
			}
			return listing[PullRequest]{first: reads(at(r, query), nil), read: readAzurePulls, next: nextBySkip}
		},
		comments: func(r repository, number int) listing[Comment] {
			return listing[Comment]{first: reads(at(r, url.Values{}, strconv.Itoa(number), "threads"), nil), read: readThreads}
		},
		comment: func(r repository, number int, of Comment) request { return reads(one(r, number, of), nil) },
		write: func(r repository, number int, of Comment, text string) request {
			if of.ID != 0 {
				return request{method: http.MethodPatch, to: one(r, number, of), body: azureContent{Content: text}}
			}
			return request{
				to:   at(r, url.Values{}, strconv.Itoa(number), "threads"),
				body: azureNewThread{Comments: []azureContent{{Content: text, Type: azureText}}, Status: azureClosed},
			}
		},
		written: func(body []byte, of Comment) (Comment, error) {
			if of.ID != 0 {
				var made azureComment
				err := json.Unmarshal(body, &made)
				return made.in(of.Thread), err
			}
			found, err := azureThreads(body)
			if len(found) == 0 {
				return Comment{}, err
			}
			return found[0], err
		},
		self: func(r repository) request {
			return reads(join(r.root(), "_apis", "connectionData")+"?api-version="+azureVersion+"-preview", nil)
		},
		name: func(a answer) (string, error) {
			var made struct {
				User azureUser `json:"authenticatedUser"`
			}
			err := json.Unmarshal(a.body, &made)
			return made.User.ID, err
		},
	}
}

const (
	// azureText is the type of a user's comment, and azureClosed the status of a thread that needs no response: an
	// active one can block a pull request.
	azureText, azureClosed = 1, 4
)

type azureUser struct {
	ID         string `json:"id"`
	UniqueName string `json:"uniqueName"`
}

type azureContent struct {
	Content string `json:"content"`
	Type    int    `json:"commentType,omitempty"`
}

type azureNewThread struct {
	Comments []azureContent `json:"comments"`
	Status   int            `json:"status"`
}

type azureComment struct {
	ID      int64     `json:"id"`
	Content string    `json:"content"`
	Author  azureUser `json:"author"`
	Deleted bool      `json:"isDeleted"`
}

// in is none if it was deleted: the host keeps its place.
func (c azureComment) in(thread int64) Comment {
	if c.Deleted {
		return Comment{}
	}
	return Comment{ID: c.ID, Thread: thread, Body: c.Content, author: c.Author.ID}
}

type azureThread struct {
	ID       int64          `json:"id"`
	Comments []azureComment `json:"comments"`
}

// azureThreads reads one thread, and readThreads a list of threads.
func azureThreads(body []byte) ([]Comment, error) {
	var made azureThread
	err := json.Unmarshal(body, &made)
	return inThreads([]azureThread{made}), err
}

func readThreads(body []byte) ([]Comment, error) {
	var listed struct {
		Value []azureThread `json:"value"`
	}
	err := json.Unmarshal(body, &listed)
	return inThreads(listed.Value), err
}

// inThreads are the comments that were not deleted.
func inThreads(threads []azureThread) []Comment {
	var found []Comment
	for _, thread := range threads {
		for _, one := range thread.Comments {
			if !one.Deleted {
				found = append(found, one.in(thread.ID))
			}
		}
	}
	return found
}

// readAzurePulls reads a page. The branch of a fork is in another repository: its head is fetched by its hash, which
// can be reached from the merge commit that the host creates in the target repository.
func readAzurePulls(body []byte) ([]PullRequest, error) {
	var listed struct {
		Value []struct {
			Number int       `json:"pullRequestId"`
			Author azureUser `json:"createdBy"`
			Source string    `json:"sourceRefName"`
			Target string    `json:"targetRefName"`
			Head   struct {
				ID string `json:"commitId"`
			} `json:"lastMergeSourceCommit"`
			Fork *struct{} `json:"forkSource"`
		} `json:"value"`
	}
	err := json.Unmarshal(body, &listed)
	found := make([]PullRequest, 0, len(listed.Value))
	for _, one := range listed.Value {
		pull := PullRequest{
			Number: one.Number, Head: one.Head.ID, Ref: one.Source, Base: strings.TrimPrefix(one.Target, branchRefs),
			Author: cmp.Or(one.Author.UniqueName, one.Author.ID), Fork: one.Fork != nil,
		}
		if pull.Fork {
			pull.Ref = ""
		}
		found = append(found, pull)
	}
	return found, err
}
