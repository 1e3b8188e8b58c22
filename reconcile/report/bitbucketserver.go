package report

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// bitbucketServer posts to Bitbucket Data Center (and Server 7.4 or later), which may have a path prefix, with an HTTP
// access token or a user and a password.
// https://developer.atlassian.com/server/bitbucket/how-tos/updating-build-status-for-commits
func bitbucketServer() adapter {
	return adapter{
		locate:      locateOnServer,
		credentials: tokenOrPassword,
		review:      bitbucketServerReview(),
		page: func(r repository, commit, folder string) string {
			page := r.page("projects", r.owner, "repos", r.name, "browse", folder)
			page.RawQuery = url.Values{"at": {commit}}.Encode()
			return page.String()
		},
		status: func(r repository, s Status) request {
			return request{
				to:   bitbucketServerAPI(r, "commits", s.Commit, "builds"),
				body: buildOf(s, longestName, r.page("projects", r.owner, "repos", r.name, "commits", s.Commit).String()),
			}
		},
	}
}

// locateOnServer reads clone URLs, /scm/KEY/name, and web pages, /projects/KEY/repos/name and /users/name/repos/name.
// The key of a user's project is the user name after a tilde.
func locateOnServer(_ string, path []string) (place, string) {
	for i := len(path) - 3; i >= 0; i-- {
		rest := path[i+1:]
		switch paged := len(rest) > 2 && rest[1] == "repos"; {
		case path[i] == "scm" && len(rest) == 2:
			return place{below: path[:i], owner: rest[0], name: rest[1]}, ""
		case path[i] == "projects" && paged:
			return place{below: path[:i], owner: rest[0], name: rest[2]}, ""
		case path[i] == "users" && paged:
			return place{below: path[:i], owner: "~" + rest[0], name: rest[2]}, ""
		}
	}
	return place{}, "has no /scm/PROJECT/repository and no /projects/PROJECT/repos/repository in its path"
}

// bitbucketServerAPI returns the root URL of a repository's REST API on Bitbucket Data Center.
func bitbucketServerAPI(r repository, segments ...string) string {
	return join(r.root(), append([]string{"rest", "api", "latest", "projects", r.owner, "repos", r.name}, segments...)...)
}

// activitiesPerPage is the page size for the events of a pull request, which include comments. It is the host's default
// limit.
const activitiesPerPage = 500

// bitbucketServerReview reads and comments on pull requests on Bitbucket Data Center.
// https://developer.atlassian.com/server/bitbucket/rest/v819/api-group-pull-requests/
func bitbucketServerReview() *reviewing {
	at := func(r repository, query url.Values, segments ...string) request {
		query.Set("start", "0")
		return reads(bitbucketServerAPI(r, append([]string{"pull-requests"}, segments...)...)+"?"+query.Encode(), nil)
	}
	return &reviewing{
		markup: withoutHTML(),
		pulls: func(r repository, base string) listing[PullRequest] {
			query := url.Values{
				"state": {"OPEN"}, "direction": {"INCOMING"}, "at": {branchRefs + base}, "order": {"NEWEST"}, "limit": {strconv.Itoa(perPage)},
				"withAttributes": {"false"}, "withProperties": {"false"},
			}
			return listing[PullRequest]{first: at(r, query), read: readValues(serverPull.pull), next: nextByStart}
		},
		comments: func(r repository, number int) listing[Comment] {
			query := url.Values{"limit": {strconv.Itoa(activitiesPerPage)}}
			return listing[Comment]{first: at(r, query, strconv.Itoa(number), "activities"), read: readActivities, next: nextByStart}
		},
		comment: func(r repository, number int, of Comment) request {
			return reads(bitbucketServerAPI(r, "pull-requests", strconv.Itoa(number), "comments", strconv.FormatInt(of.ID, 10)), nil)
		},
		write: func(r repository, number int, of Comment, text string) request {
			made := request{to: bitbucketServerAPI(r, "pull-requests", strconv.Itoa(number), "comments"), body: serverText{Text: text}}
			if of.ID != 0 {
				made.method, made.to = http.MethodPut, join(made.to, strconv.FormatInt(of.ID, 10))
				made.body = serverEdit{Text: text, Version: of.Version}
			}
			return made
		},
		written: madeOf(serverComment.comment),
		self: func(r repository) request {
			return reads(join(r.root(), "rest", "api", "latest", "application-properties"), nil)
		},
		// No resource returns it; each response to a user has the name in a header, escaped.
		name: func(a answer) (string, error) { return url.PathUnescape(a.header.Get("X-Ausername")) },
	}
}

const branchRefs = "refs/heads/"

type serverUser struct {
	Name string `json:"name"`
}

type serverText struct {
	Text string `json:"text"`
}

// serverEdit replaces a given version of a comment; the host rejects any other version.
type serverEdit struct {
	Text    string `json:"text"`
	Version int    `json:"version"`
}

type serverComment struct {
	ID      int64      `json:"id"`
	Version int        `json:"version"`
	Text    string     `json:"text"`
	Author  serverUser `json:"author"`
}

func (c serverComment) comment() Comment {
	return Comment{ID: c.ID, Version: c.Version, Body: c.Text, author: c.Author.Name}
}

// readActivities reads the comments from the events of a pull request.
func readActivities(body []byte) ([]Comment, error) {
	var listed struct {
		Values []struct {
			Action  string         `json:"action"`
			Comment *serverComment `json:"comment"`
		} `json:"values"`
	}
	err := json.Unmarshal(body, &listed)
	var found []Comment
	for _, one := range listed.Values {
		if one.Action == "COMMENTED" && one.Comment != nil {
			found = append(found, one.Comment.comment())
		}
	}
	return found, err
}

// serverSide is one of the two branches, with the full name of its reference.
type serverSide struct {
	ID         string `json:"id"`
	Commit     string `json:"latestCommit"`
	Repository struct {
		ID int64 `json:"id"`
	} `json:"repository"`
}

// serverPull is a pull request there.
type serverPull struct {
	ID     int        `json:"id"`
	From   serverSide `json:"fromRef"`
	To     serverSide `json:"toRef"`
	Author struct {
		User serverUser `json:"user"`
	} `json:"author"`
}

// pull uses the reference that the host creates in the target repository for the head of a fork; for the repository's
// own pull requests it uses the branch, which is always up to date.
func (p serverPull) pull() PullRequest {
	made := PullRequest{
		Number: p.ID, Head: p.From.Commit, Ref: p.From.ID, Base: strings.TrimPrefix(p.To.ID, branchRefs), Author: p.Author.User.Name,
		Fork: p.From.Repository.ID != p.To.Repository.ID,
	}
	if made.Fork {
		made.Ref = fmt.Sprintf("refs/pull-requests/%d/from", p.ID)
	}
	return made
}
