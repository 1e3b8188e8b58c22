package report

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// bitbucket posts to Bitbucket Cloud, with an access token of the repository, the project or the workspace, or with a
// user's email address and API token. https://developer.atlassian.com/cloud/bitbucket/rest/api-group-commit-statuses/
//
// Only the user who created a status may replace it, and each access token is a separate user.
// https://developer.atlassian.com/cloud/bitbucket/bitbucket-api-changes-commit-status/
func bitbucket() adapter {
	return adapter{
		locate: func(host string, path []string) (place, string) {
			at, reason := lastTwo(host, path)
			switch {
			case host != "bitbucket.org" && host != "www.bitbucket.org":
				return place{}, "is not on bitbucket.org (for Bitbucket Data Center, set report.provider to bitbucketserver)"
			case len(at.below) > 0:
				return place{}, noRepository
			}
			return at, reason
		},
		credentials: tokenOrPassword,
		review:      bitbucketReview(),
		page:        folderPage("src"),
		status: func(r repository, s Status) request {
			return request{
				to:   bitbucketAPI(r, "commit", s.Commit, "statuses", "build"),
				body: buildOf(s, longestBitbucketKey, r.page(r.owner, r.name, "commits", s.Commit).String()),
			}
		},
	}
}

// longestBitbucketKey is the longest key that Bitbucket Cloud accepts. https://jira.atlassian.com/browse/BCLOUD-23984
const longestBitbucketKey = 40

// build is the request body of both kinds of Bitbucket. It replaces an earlier one with the same key.
type build struct {
	Key         string `json:"key"`
	State       string `json:"state"`
	Name        string `json:"name"`
	Description string `json:"description"`
	URL         string `json:"url"`
}

// buildOf converts a status into a build. It requires a URL: the commit's page if the status has none.
func buildOf(s Status, longestKey int, commitPage string) build {
	return build{
		Key: shorten(s.Context, longestKey), State: bitbucketState(s.State), Name: shorten(s.Context, longestName),
		Description: Truncate(s.Description), URL: cmp.Or(s.TargetURL, commitPage),
	}
}

// bitbucketState returns Bitbucket's name of a state.
func bitbucketState(s State) string {
	switch s {
	case Success:
		return "SUCCESSFUL"
	case Failure:
		return "FAILED"
	case Pending:
	}
	return "INPROGRESS"
}

// withoutHTML is the markup of both kinds of Bitbucket, which show tags as text.
// https://confluence.atlassian.com/bitbucketserver/markdown-syntax-guide-776639995.html
func withoutHTML() Markup { return Markup{Most: 30_000} }

// bitbucketAPI returns the root URL of a repository's REST API on Bitbucket Cloud.
func bitbucketAPI(r repository, segments ...string) string {
	return join(r.scheme+"://api.bitbucket.org/2.0/repositories", append([]string{r.owner, r.name}, segments...)...)
}

// bitbucketReview reads and comments on pull requests on Bitbucket Cloud.
// https://developer.atlassian.com/cloud/bitbucket/rest/api-group-pullrequests/
//
// It does not list those from forks, because no reference of the repository leads to their heads. Lists contain only
// twelve digits of a head.
func bitbucketReview() *reviewing {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	at := func(r repository, query url.Values, segments ...string) request {
		query.Set("pagelen", strconv.Itoa(perPage))
		return reads(bitbucketAPI(r, append([]string{"pullrequests"}, segments...)...)+"?"+query.Encode(), nil)
	}
	return &reviewing{
		markup: withoutHTML(),
		pulls: func(r repository, base string) listing[PullRequest] {
			query := url.Values{"q": {`state="OPEN" AND destination.branch.name="` + quoted.Replace(base) + `"`}, "sort": {"-created_on"}}
			return listing[PullRequest]{first: at(r, query), read: readBitbucketPulls, next: nextByURL}
		},
		comments: func(r repository, number int) listing[Comment] {
			query := url.Values{"sort": {"created_on"}}
			return listing[Comment]{
				first: at(r, query, strconv.Itoa(number), "comments"), read: readValues(bitbucketComment.comment), next: nextByURL,
			}
		},
		comment: func(r repository, number int, of Comment) request {
			return reads(bitbucketAPI(r, "pullrequests", strconv.Itoa(number), "comments", strconv.FormatInt(of.ID, 10)), nil)
		},
		write: func(r repository, number int, of Comment, text string) request {
			made := request{
				to: bitbucketAPI(r, "pullrequests", strconv.Itoa(number), "comments"), body: bitbucketComment{Content: bitbucketContent{text}},
			}
			if of.ID != 0 {
				made.method, made.to = http.MethodPut, join(made.to, strconv.FormatInt(of.ID, 10))
			}
			return made
		},
		written: madeOf(bitbucketComment.comment),
		self:    func(r repository) request { return reads(r.scheme+"://api.bitbucket.org/2.0/user", nil) },
		name: func(a answer) (string, error) {
			var user bitbucketUser
			err := json.Unmarshal(a.body, &user)
			return user.UUID, err
		},
		selfRight: "read its own user: an API token with read:user:bitbucket, as an access token of a repository may not",
		whole:     func(r repository, short string) request { return reads(bitbucketAPI(r, "commit", short), nil) },
		hash: func(body []byte) (string, error) {
			var commit bitbucketCommit
			err := json.Unmarshal(body, &commit)
			return commit.Hash, err
		},
	}
}

type bitbucketUser struct {
	UUID string `json:"uuid"`
}

type bitbucketContent struct {
	Raw string `json:"raw"`
}

type bitbucketComment struct {
	ID      int64            `json:"id,omitempty"`
	Content bitbucketContent `json:"content"`
	User    *bitbucketUser   `json:"user,omitempty"`
	Deleted bool             `json:"deleted,omitempty"`
}

// comment is none if it was deleted: the host keeps its place.
func (c bitbucketComment) comment() Comment {
	if c.Deleted {
		return Comment{}
	}
	made := Comment{ID: c.ID, Body: c.Content.Raw}
	if c.User != nil {
		made.author = c.User.UUID
	}
	return made
}

type bitbucketCommit struct {
	Hash string `json:"hash"`
}

// bitbucketSide is one of the two branches. Repository is null after the source's repository was deleted.
type bitbucketSide struct {
	Commit     bitbucketCommit `json:"commit"`
	Repository *struct {
		UUID string `json:"uuid"`
	} `json:"repository"`
	Branch struct {
		Name string `json:"name"`
	} `json:"branch"`
}

func readBitbucketPulls(body []byte) ([]PullRequest, error) {
	var listed struct {
		Values []struct {
			ID                  int           `json:"id"`
			Author              bitbucketUser `json:"author"`
			Source, Destination bitbucketSide
		} `json:"values"`
	}
	err := json.Unmarshal(body, &listed)
	var found []PullRequest
	for _, one := range listed.Values {
		from, to := one.Source.Repository, one.Destination.Repository
		if from == nil || to == nil || from.UUID != to.UUID {
			continue
		}
		found = append(found, PullRequest{
			Number: one.ID, Head: one.Source.Commit.Hash, Ref: branchRefs + one.Source.Branch.Name, Base: one.Destination.Branch.Name,
			Author: one.Author.UUID,
		})
	}
	return found, err
}
