package report

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// azureAPI is the root of a repository's REST API.
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
	return &reviewing{
		markup: withHTML(),
		pulls: func(r repository, base string) listing[PullRequest] {
			query := url.Values{
				"searchCriteria.status": {"active"}, "searchCriteria.targetRefName": {branchRefs + base}, "$top": {strconv.Itoa(perPage)}, "$skip": {"0"},
			}
			return listing[PullRequest]{first: reads(at(r, query), nil), read: readAzurePulls, next: nextBySkip}
		},
		comments: func(r repository, number int) listing[Comment] {
			return listing[Comment]{first: reads(at(r, url.Values{}, strconv.Itoa(number), "threads"), nil), read: readThreads}
		},
		write: func(r repository, number int, of Comment, text string) request {
			if of.ID != 0 {
				to := at(r, url.Values{}, strconv.Itoa(number), "threads", strconv.FormatInt(of.Thread, 10), "comments", strconv.FormatInt(of.ID, 10))
				return request{method: http.MethodPatch, to: to, body: azureContent{Content: text}}
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
	// azureText is the type of a comment by a user, and azureClosed the status of a thread that
	// waits for nobody: an active one can keep a pull request from being completed.
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

func (c azureComment) in(thread int64) Comment {
	return Comment{ID: c.ID, Thread: thread, Body: c.Content, author: c.Author.ID}
}

type azureThread struct {
	ID       int64          `json:"id"`
	Comments []azureComment `json:"comments"`
}

// azureThreads reads one thread, and readThreads a list of them.
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

// inThreads are the comments that were not deleted: of those the host keeps the place.
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

// readAzurePulls reads a page. The branch of a fork is in another repository: its head is fetched by its
// hash, which the merge that the host makes in the target leads to.
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
