package report_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// forge is how one kind of host speaks of pull requests, as its documentation has it.
type forge struct {
	// list is where they are listed, comments those on number 7, and edited one of these.
	list, comments, edited string
	// edits is the method that edits one.
	edits string
	// shape is a page of them: one of a branch, one of a fork, and one into another branch.
	shape string
	ref   string
}

func githubShape(more string) string {
	pull := `{"id": 1, "number": %d, "state": "open", "user": {"login": "octocat", "id": 1}, "body": "x",
		"head": {"label": "a:b", "ref": "b", "sha": "%s", "repo": %s}, "base": {"label": "acme:main", "ref": %q, "sha": "0000", "repo": {"id": 5, "full_name": "acme/fleet"}}` + more + `}`
	own, theirs := `{"id": 5, "full_name": "acme/fleet"}`, `{"id": 6, "full_name": "octocat/fleet"}`
	return "[" + strings.Join([]string{
		fmt.Sprintf(pull, 9, "aa09", own, "main"), fmt.Sprintf(pull, 8, "aa08", theirs, "main"),
		fmt.Sprintf(pull, 7, "aa07", "null", "main"), fmt.Sprintf(pull, 6, "aa06", own, "release"),
	}, ",") + "]"
}

const gitlabShape = `[
	{"id": 1, "iid": 9, "state": "opened", "sha": "aa09", "target_branch": "main", "source_branch": "b", "author": {"username": "octocat"}, "source_project_id": 5, "target_project_id": 5},
	{"id": 2, "iid": 8, "state": "opened", "sha": "aa08", "target_branch": "main", "source_branch": "b", "author": {"username": "octocat"}, "source_project_id": 6, "target_project_id": 5},
	{"id": 3, "iid": 7, "state": "opened", "sha": "aa07", "target_branch": "main", "source_branch": "b", "author": {"username": "octocat"}, "source_project_id": null, "target_project_id": 5},
	{"id": 4, "iid": 6, "state": "opened", "sha": "aa06", "target_branch": "release", "source_branch": "b", "author": {"username": "octocat"}, "source_project_id": 5, "target_project_id": 5}
]`

func forges() map[string]forge {
	github := forge{
		list:     "api.github.com/repos/acme/fleet/pulls?base=main&direction=desc&page=1&per_page=50&sort=created&state=open",
		comments: "api.github.com/repos/acme/fleet/issues/7/comments", edited: "api.github.com/repos/acme/fleet/issues/comments/31",
		edits: http.MethodPatch, shape: githubShape(`, "draft": false`), ref: "refs/pull/9/head",
	}
	return map[string]forge{
		"github": github, "github app": github,
		"gitea": {
			list:     "git.example.com:3000/api/v1/repos/acme/fleet/pulls?limit=50&page=1&state=open",
			comments: "git.example.com:3000/api/v1/repos/acme/fleet/issues/7/comments", edited: "git.example.com:3000/api/v1/repos/acme/fleet/issues/comments/31",
			edits: http.MethodPatch, shape: githubShape(`, "merge_base": "0000"`), ref: "refs/pull/9/head",
		},
		"gitlab": {
			list:     "gitlab.com/api/v4/projects/acme%2Finfra%2Feu%2Ffleet/merge_requests?order_by=created_at&page=1&per_page=50&sort=desc&state=opened&target_branch=main",
			comments: "gitlab.com/api/v4/projects/acme%2Finfra%2Feu%2Ffleet/merge_requests/7/notes", edited: "gitlab.com/api/v4/projects/acme%2Finfra%2Feu%2Ffleet/merge_requests/7/notes/31",
			edits: http.MethodPut, shape: gitlabShape, ref: "refs/merge-requests/9/head",
		},
	}
}

func (d dialect) reviewer(t *testing.T) report.Reviewer {
	t.Helper()
	secret := map[string][]byte{}
	for key, value := range d.secret {
		secret[key] = []byte(value)
	}
	r, err := (&report.Hosts{Now: time.Now}).Reviewer(d.provider, d.repository, secret, true)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func eachForge(t *testing.T, test func(*testing.T, dialect, forge)) {
	t.Helper()
	for name, f := range forges() {
		t.Run(name, func(t *testing.T) { test(t, dialects()[name], f) })
	}
}

// TestOpenPullRequestsAreListed: those into the branch, over all pages, with the proof of the token.
func TestOpenPullRequestsAreListed(t *testing.T) {
	eachForge(t, func(t *testing.T, d dialect, f forge) {
		sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("page") == "1" {
				w.Header().Set("Link", `<http://`+r.Host+r.URL.Path+`?page=2>; rel="next", <http://x>; rel="last"`)
				_, _ = fmt.Fprint(w, f.shape)
				return
			}
			_, _ = fmt.Fprint(w, strings.NewReplacer("aa0", "bb0").Replace(f.shape))
		})
		got, more, err := d.reviewer(t).PullRequests(t.Context(), "main")
		if err != nil || more {
			t.Fatal(more, err)
		}
		want := []report.PullRequest{
			{Number: 9, Head: "aa09", Ref: f.ref, Base: "main", Author: "octocat"},
			{Number: 8, Head: "aa08", Ref: strings.Replace(f.ref, "9", "8", 1), Base: "main", Author: "octocat", Fork: true},
			{Number: 7, Head: "aa07", Ref: strings.Replace(f.ref, "9", "7", 1), Base: "main", Author: "octocat", Fork: true},
			{Number: 9, Head: "bb09", Ref: f.ref, Base: "main", Author: "octocat"},
			{Number: 8, Head: "bb08", Ref: strings.Replace(f.ref, "9", "8", 1), Base: "main", Author: "octocat", Fork: true},
			{Number: 7, Head: "bb07", Ref: strings.Replace(f.ref, "9", "7", 1), Base: "main", Author: "octocat", Fork: true},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
		if len(*sent) != 2 || (*sent)[0].URL != f.list || (*sent)[0].Method != http.MethodGet || (*sent)[0].Header.Get(d.proof[0]) != d.proof[1] {
			t.Errorf("sent %v, want 2 requests beginning with GET %s", *sent, f.list)
		}
	})
}

// TestAListEnds, however many pages there are, and says so.
func TestAListEnds(t *testing.T) {
	eachForge(t, func(t *testing.T, d dialect, f forge) {
		sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", `<http://`+r.Host+r.URL.Path+`>; rel="next"`)
			_, _ = fmt.Fprint(w, f.shape)
		})
		_, more, err := d.reviewer(t).PullRequests(t.Context(), "main")
		if err != nil || !more || len(*sent) != 20 {
			t.Errorf("%d pages, more %v, error %v", len(*sent), more, err)
		}
	})
}

// TestACommentIsWrittenAndEdited, each by the request that the host documents.
func TestACommentIsWrittenAndEdited(t *testing.T) {
	eachForge(t, func(t *testing.T, d dialect, f forge) {
		sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				_, _ = fmt.Fprint(w, `[{"id": 30, "body": "hello", "system": true}, {"id": 31, "body": "mine"}]`)
				return
			}
			_, _ = fmt.Fprint(w, `{"id": 31, "body": "x"}`)
		})
		r := d.reviewer(t)
		there, err := r.Comments(t.Context(), 7)
		if err != nil || len(there) != 2 || there[1] != (report.Comment{ID: 31, Body: "mine"}) {
			t.Fatalf("comments %v, error %v", there, err)
		}
		for _, id := range []int64{0, 31} {
			if made, err := r.Comment(t.Context(), 7, id, "text"); err != nil || made != 31 {
				t.Fatalf("comment %d: id %d, error %v", id, made, err)
			}
		}
		read, made, edited := (*sent)[0], (*sent)[1], (*sent)[2]
		if read.Method != http.MethodGet || !strings.HasPrefix(read.URL, f.comments+"?") {
			t.Errorf("%s %s, want GET %s", read.Method, read.URL, f.comments)
		}
		if made.Method != http.MethodPost || made.URL != f.comments || edited.Method != f.edits || edited.URL != f.edited {
			t.Errorf("%s %s and %s %s, want POST %s and %s %s", made.Method, made.URL, edited.Method, edited.URL, f.comments, f.edits, f.edited)
		}
		if made.Body["body"] != "text" || edited.Body["body"] != "text" {
			t.Errorf("bodies %v and %v", made.Body, edited.Body)
		}
	})
}

// TestAHostRefusesToList: each answer has its error, which says what was asked for.
func TestAHostRefusesToList(t *testing.T) {
	cases := map[string]struct {
		code   int
		header string
		is     func(error) bool
	}{
		"401":              {http.StatusUnauthorized, "", as[*report.UnauthorizedError]},
		"403":              {http.StatusForbidden, "", as[*report.UnauthorizedError]},
		"403 with a limit": {http.StatusForbidden, "60", as[*report.RateLimitedError]},
		"404":              {http.StatusNotFound, "", as[*report.NotFoundError]},
		"422":              {http.StatusUnprocessableEntity, "", as[*report.RejectedError]},
		"429":              {http.StatusTooManyRequests, "60", as[*report.RateLimitedError]},
		"500":              {http.StatusInternalServerError, "", as[*report.UnavailableError]},
		"no JSON":          {http.StatusOK, "", as[*report.UnavailableError]},
	}
	eachForge(t, func(t *testing.T, d dialect, _ forge) {
		for name, c := range cases {
			hosts(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.WriteHeader(c.code)
				_, _ = fmt.Fprint(w, "<html>")
			})
			_, _, err := d.reviewer(t).PullRequests(t.Context(), "main")
			if !c.is(err) || !strings.HasPrefix(err.Error(), "list the open pull requests on ") || strings.Contains(err.Error(), token) {
				t.Errorf("%s: %T: %v", name, err, err)
			}
		}
		hosts(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, _, err := d.reviewer(t).PullRequests(ctx, "main"); !as[*report.UnavailableError](err) {
			t.Errorf("a host that hangs: %v", err)
		}
	})
}

// TestOtherHostsHaveNoReviewer: they are refused by name.
func TestOtherHostsHaveNoReviewer(t *testing.T) {
	for name, d := range dialects() {
		if _, has := forges()[name]; has || d.provider == "forgejo" || d.provider == "github" {
			continue
		}
		secret := map[string][]byte{}
		for key, value := range d.secret {
			secret[key] = []byte(value)
		}
		if _, err := (&report.Hosts{Now: time.Now}).Reviewer(d.provider, d.repository, secret, false); !as[*report.RepositoryError](err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
