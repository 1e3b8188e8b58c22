package report_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// forge describes the pull requests of one kind of host, according to its documentation.
type forge struct {
	// list is where they are listed, and page the parameter and the response for a page of them.
	list string
	page paging
	// pull is one with a number, from the repository's branch b, from a fork, or from a deleted repository.
	pull func(number int, base string, from source) string
	// ref is where the head of 9 is fetched, and forked that of a fork; if "-", forks are not listed.
	ref, forked string
	// author is the author of a pull request.
	author string
	// comments is where comments on number 7 are listed, and made where one is created.
	comments, made string
	// wraps is a page of comments, and comment one by an author.
	wraps   func(comments []string) string
	comment func(id int, author, text string) string
	// written is the response to a created comment, and body the request body.
	written func(id int, text string) string
	body    func(edit bool) map[string]any
	// edits and edited are the method and URL for editing comment 31.
	edits, edited string
	// self is where the host returns the token's user, who the response, and me the name as an author.
	self string
	who  func(w http.ResponseWriter)
	me   string
}

// source is where a pull request comes from.
type source int

const (
	own source = iota
	fork
	deleted
)

func headOf(number int) string { return fmt.Sprintf("%012x%028x", number, number) }

func answers(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { _, _ = fmt.Fprint(w, text) }
}

func plainBody(bool) map[string]any { return map[string]any{"body": "text"} }

func inArray(comments []string) string { return "[" + strings.Join(comments, ",") + "]" }

func githubForge() forge {
	return forge{
		list: "api.github.com/repos/acme/fleet/pulls?base=main&direction=desc&page=1&per_page=50&sort=created&state=open", page: byLink(),
		pull: func(number int, base string, from source) string {
			repo := []string{`{"id": 5, "full_name": "acme/fleet"}`, `{"id": 6, "full_name": "octocat/fleet"}`, "null"}[from]
			return fmt.Sprintf(`{"id": 1, "number": %d, "state": "open", "user": {"login": "octocat", "id": 1}, "body": "x", "draft": false, "merge_base": "0000",
				"head": {"label": "a:b", "ref": "b", "sha": "%s", "repo": %s}, "base": {"label": "acme:main", "ref": %q, "sha": "0000", "repo": {"id": 5, "full_name": "acme/fleet"}}}`,
				number, headOf(number), repo, base)
		},
		ref: "refs/pull/9/head", forked: "refs/pull/9/head", author: "octocat",
		comments: "api.github.com/repos/acme/fleet/issues/7/comments?page=1&per_page=50", made: "api.github.com/repos/acme/fleet/issues/7/comments", wraps: inArray,
		comment: func(id int, author, text string) string {
			return fmt.Sprintf(`{"id": %d, "body": %q, "user": {"login": %q, "id": 1}, "author_association": "MEMBER"}`, id, text, author)
		},
		written: func(id int, text string) string { return fmt.Sprintf(`{"id": %d, "body": %q}`, id, text) }, body: plainBody,
		edits: http.MethodPatch, edited: "api.github.com/repos/acme/fleet/issues/comments/31",
		self: "api.github.com/user", who: answers(`{"login": "ci-bot", "id": 2, "type": "User"}`), me: "ci-bot",
	}
}

func giteaForge() forge {
	f := githubForge()
	f.list = "git.example.com:3000/api/v1/repos/acme/fleet/pulls?limit=50&page=1&state=open"
	f.made, f.edited = "git.example.com:3000/api/v1/repos/acme/fleet/issues/7/comments", "git.example.com:3000/api/v1/repos/acme/fleet/issues/comments/31"
	f.comments, f.self = f.made+"?limit=50&page=1", "git.example.com:3000/api/v1/user"
	return f
}

func gitlabForge() forge {
	const project = "gitlab.com/api/v4/projects/acme%2Finfra%2Feu%2Ffleet/merge_requests"
	return forge{
		list: project + "?order_by=created_at&page=1&per_page=50&sort=desc&state=opened&target_branch=main", page: byLink(),
		pull: func(number int, base string, from source) string {
			return fmt.Sprintf(`{"id": 1, "iid": %d, "state": "opened", "sha": "%s", "target_branch": %q, "source_branch": "b", "author": {"id": 1, "username": "octocat"}, "source_project_id": %s, "target_project_id": 5}`,
				number, headOf(number), base, []string{"5", "6", "null"}[from])
		},
		ref: "refs/merge-requests/9/head", forked: "refs/merge-requests/9/head", author: "octocat",
		comments: project + "/7/notes?order_by=created_at&page=1&per_page=50&sort=asc", made: project + "/7/notes", wraps: inArray,
		comment: func(id int, author, text string) string {
			return fmt.Sprintf(`{"id": %d, "body": %q, "author": {"id": 1, "username": %q}, "system": false}`, id, text, author)
		},
		written: func(id int, text string) string { return fmt.Sprintf(`{"id": %d, "body": %q}`, id, text) }, body: plainBody,
		edits: http.MethodPut, edited: project + "/7/notes/31",
		self: "gitlab.com/api/v4/user", who: answers(`{"id": 2, "username": "project_5_bot_1", "bot": true}`), me: "project_5_bot_1",
	}
}

func bitbucketForge() forge {
	const api, me = "api.bitbucket.org/2.0/repositories/acme/fleet/pullrequests", "{87bb15eb-47c1-49b3-9f16-ca824a2979a4}"
	return forge{
		list: api + "?pagelen=50&q=state%3D%22OPEN%22+AND+destination.branch.name%3D%22main%22&sort=-created_on", page: byURL(),
		pull: func(number int, base string, from source) string {
			return fmt.Sprintf(`{"type": "pullrequest", "id": %d, "state": "OPEN", "author": {"uuid": "{a}", "nickname": "octocat"},
				"source": {"commit": {"hash": "%s", "type": "commit"}, "branch": {"name": "b"}, "repository": %s},
				"destination": {"commit": {"hash": "710db794f15b"}, "branch": {"name": %q}, "repository": {"uuid": "{5}", "full_name": "acme/fleet"}}}`,
				number, headOf(number)[:12], []string{`{"uuid": "{5}", "full_name": "acme/fleet"}`, `{"uuid": "{6}"}`, "null"}[from], base)
		},
		ref: "refs/heads/b", forked: "-", author: "{a}",
		comments: api + "/7/comments?pagelen=50&sort=created_on", made: api + "/7/comments",
		wraps: func(comments []string) string {
			return `{"pagelen": 50, "page": 1, "size": 2, ` + values(comments) + `}`
		},
		comment: func(id int, author, text string) string {
			return fmt.Sprintf(`{"id": %d, "type": "pullrequest_comment", "content": {"type": "rendered", "raw": %q, "markup": "markdown", "html": "<p>x</p>"}, "user": {"uuid": %q}, "deleted": false}`, id, text, author)
		},
		written: func(id int, text string) string { return fmt.Sprintf(`{"id": %d, "content": {"raw": %q}}`, id, text) },
		body:    func(bool) map[string]any { return map[string]any{"content": map[string]any{"raw": "text"}} },
		edits:   http.MethodPut, edited: api + "/7/comments/31",
		self: "api.bitbucket.org/2.0/user", who: answers(`{"type": "user", "uuid": "` + me + `", "nickname": "ci"}`), me: me,
	}
}

func bitbucketServerForge() forge {
	const api = "bitbucket.example.com/rest/api/latest/projects/FLT/repos/fleet/pull-requests"
	comment := func(id int, author, text string) string {
		return fmt.Sprintf(`{"properties": {"repositoryId": 1}, "id": %d, "version": 4, "text": %q, "author": {"name": %q, "slug": "x", "type": "NORMAL"}, "comments": []}`, id, text, author)
	}
	return forge{
		list: api + "?at=refs%2Fheads%2Fmain&direction=INCOMING&limit=50&order=NEWEST&start=0&state=OPEN&withAttributes=false&withProperties=false", page: byStart(),
		pull: func(number int, base string, from source) string {
			return fmt.Sprintf(`{"id": %d, "version": 0, "state": "OPEN", "open": true, "author": {"user": {"name": "octocat", "slug": "octocat"}, "role": "AUTHOR"},
				"fromRef": {"id": "refs/heads/b", "displayId": "b", "latestCommit": "%s", "repository": {"slug": "fleet", "id": %s, "project": {"key": "FLT"}}},
				"toRef": {"id": "refs/heads/%s", "latestCommit": "0000", "repository": {"slug": "fleet", "id": 5, "project": {"key": "FLT"}}}}`,
				number, headOf(number), []string{"5", "6", "0"}[from], base)
		},
		ref: "refs/heads/b", forked: "refs/pull-requests/9/from", author: "octocat",
		comments: api + "/7/activities?limit=500&start=0", made: api + "/7/comments",
		wraps: func(comments []string) string {
			events := []string{`{"id": 99, "action": "APPROVED", "user": {"name": "octocat"}}`}
			for i := len(comments) - 1; i >= 0; i-- { // the newest first
				events = append(events, `{"id": 14, "action": "COMMENTED", "commentAction": "ADDED", "comment": `+comments[i]+`}`)
			}
			return `{"size": 3, "limit": 500, "isLastPage": true, ` + values(append(events, `{"id": 12, "action": "OPENED"}`)) + `, "start": 0, "nextPageStart": null}`
		},
		comment: comment,
		written: func(id int, text string) string { return comment(id, "ci@example.com", text) },
		body: func(edit bool) map[string]any {
			if edit {
				return map[string]any{"text": "text", "version": float64(4)}
			}
			return map[string]any{"text": "text"}
		},
		edits: http.MethodPut, edited: api + "/7/comments/31",
		self: "bitbucket.example.com/rest/api/latest/application-properties", me: "ci@example.com",
		who: func(w http.ResponseWriter) {
			w.Header().Set("X-AUSERNAME", "ci%40example.com")
			_, _ = fmt.Fprint(w, `{"version": "8.19.1", "buildNumber": "8019001", "displayName": "Bitbucket"}`)
		},
	}
}

func azureForge() forge {
	const api, me = "dev.azure.com/acme/infra%20eu/_apis/git/repositories/fleet/pullRequests", "d6245f20-2af8-44f4-9451-8107cb2767db"
	comment := func(id int, author, text string) string {
		return fmt.Sprintf(`{"id": %d, "parentCommentId": 0, "author": {"id": %q, "displayName": "Normal Paulk"}, "content": %q, "commentType": "text"}`, id, author, text)
	}
	return forge{
		list: api + "?%24skip=0&%24top=50&api-version=6.0&searchCriteria.status=active&searchCriteria.targetRefName=refs%2Fheads%2Fmain", page: bySkip(),
		pull: func(number int, base string, from source) string {
			more := ""
			if from != own {
				more = `, "forkSource": {"name": "refs/heads/b", "repository": {"id": "6"}}`
			}
			return fmt.Sprintf(`{"pullRequestId": %d, "status": "active", "createdBy": {"id": "1", "uniqueName": "octocat"}, "sourceRefName": "refs/heads/b", "targetRefName": "refs/heads/%s",
				"mergeStatus": "succeeded", "lastMergeSourceCommit": {"commitId": "%s"}, "lastMergeTargetCommit": {"commitId": "0000"}%s}`, number, base, headOf(number), more)
		},
		ref: "refs/heads/b", forked: "", author: "octocat",
		comments: api + "/7/threads?api-version=6.0", made: api + "/7/threads?api-version=6.0",
		wraps: func(comments []string) string {
			threads := []string{`{"id": 140, "comments": [{"id": 1, "commentType": "system", "author": {"id": "s"}, "content": "Normal Paulk voted 10"}], "isDeleted": false}`}
			for _, one := range comments {
				threads = append(threads, `{"id": 141, "status": "closed", "isDeleted": false, "comments": [{"id": 1, "isDeleted": true, "author": {"id": "`+me+`"}}, `+one+`]}`)
			}
			return `{"value": [` + strings.Join(threads, ",") + `], "count": 3}`
		},
		comment: comment,
		written: func(id int, text string) string {
			return `{"id": 141, "status": "closed", "comments": [` + comment(id, me, text) + `]}`
		},
		body: func(edit bool) map[string]any {
			if edit {
				return map[string]any{"content": "text"}
			}
			return map[string]any{"comments": []any{map[string]any{"content": "text", "commentType": float64(1)}}, "status": float64(4)}
		},
		edits: http.MethodPatch, edited: api + "/7/threads/141/comments/31?api-version=6.0",
		self: "dev.azure.com/acme/_apis/connectionData?api-version=6.0-preview", me: me,
		who: answers(`{"authenticatedUser": {"id": "` + me + `", "providerDisplayName": "Normal Paulk"}, "instanceId": "x"}`),
	}
}

func forges() map[string]forge {
	app := githubForge()
	app.self, app.who, app.me = "api.github.com/app", answers(`{"id": 12, "slug": "fleet-plans", "name": "Fleet plans"}`), "fleet-plans[bot]"
	return map[string]forge{
		"github": githubForge(), "github app": app, "gitlab": gitlabForge(), "gitea": giteaForge(), "forgejo": giteaForge(),
		"bitbucket": bitbucketForge(), "bitbucket, a user": bitbucketForge(), "bitbucket server": bitbucketServerForge(), "azure devops": azureForge(),
	}
}

func (d dialect) reviewer(t *testing.T, hosts *report.Hosts) report.Reviewer {
	t.Helper()
	secret := map[string][]byte{}
	for key, value := range d.secret {
		secret[key] = []byte(value)
	}
	r, err := hosts.Reviewer(d.provider, d.repository, secret, true)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func eachForge(t *testing.T, test func(*testing.T, dialect, forge)) {
	t.Helper()
	for name, f := range forges() {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { test(t, dialects()[name], f) })
	}
}
