package report_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

func newHosts() *report.Hosts { return &report.Hosts{Now: time.Now} }

// TestOpenPullRequestsAreListed for the branch, with the token.
func TestOpenPullRequestsAreListed(t *testing.T) {
	eachForge(t, func(t *testing.T, d dialect, f forge) {
		items := []string{f.pull(9, "main", own), f.pull(9, "main", fork), f.pull(9, "main", deleted), f.pull(6, "release", own)}
		sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
			if !askedWhole(w, r, 9) {
				f.page.serve(w, r, items)
			}
		})
		got, more, err := d.reviewer(t, newHosts()).PullRequests(t.Context(), "main")
		if err != nil || more {
			t.Fatal(more, err)
		}
		want := []report.PullRequest{{Number: 9, Head: headOf(9), Ref: f.ref, Base: "main", Author: f.author}}
		if f.forked != "-" {
			theirs := report.PullRequest{Number: 9, Head: headOf(9), Ref: f.forked, Base: "main", Author: f.author, Fork: true}
			want = append(want, theirs, theirs)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
		if first := (*sent)[0]; first.URL != f.list || first.Method != http.MethodGet || first.Header.Get(d.proof[0]) != d.proof[1] {
			t.Errorf("sent %s %s, want GET %s", first.Method, first.URL, f.list)
		}
	})
}

// TestManyPagesAreRead: 200 open ones, each once and in the host's order; a second list does not look up full hashes
// again.
func TestManyPagesAreRead(t *testing.T) {
	eachForge(t, func(t *testing.T, d dialect, f forge) {
		var items []string
		for number := 200; number > 0; number-- {
			items = append(items, f.pull(number, "main", own))
		}
		wholes := 0
		sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
			if askedWhole(w, r, 200) {
				wholes++
				return
			}
			f.page.serve(w, r, items)
		})
		all, lists := newHosts(), 1
		if d.provider == "bitbucket" {
			lists = 4 // 60 heads for each
		}
		var got []report.PullRequest
		for list := range lists {
			open, more, err := d.reviewer(t, all).PullRequests(t.Context(), "main")
			if err != nil || more || !slices.IsSortedFunc(open, func(a, b report.PullRequest) int { return b.Number - a.Number }) {
				t.Fatalf("list %d: more %v, error %v, %v", list, more, err, open)
			}
			got = open
		}
		if len(got) != 200 || got[0].Number != 200 || got[199] != (report.PullRequest{Number: 1, Head: headOf(1), Ref: strings.Replace(f.ref, "9", "1", 1), Base: "main", Author: f.author}) {
			t.Errorf("%d are listed, from %v", len(got), got[0])
		}
		// A host without a count has one more page, which is empty.
		if n := len(*sent) - wholes; n != 4*lists && n != 5*lists || wholes != 0 && wholes != 200 {
			t.Errorf("%d pages, %d whole heads", n, wholes)
		}
	})
}

// TestAListEnds after the maximum number of pages, and reports that there are more.
func TestAListEnds(t *testing.T) {
	eachForge(t, func(t *testing.T, d dialect, f forge) {
		items := slices.Repeat([]string{f.pull(9, "main", own)}, 1100)
		pages := 0
		hosts(t, func(w http.ResponseWriter, r *http.Request) {
			if !askedWhole(w, r, 9) {
				pages++
				f.page.serve(w, r, items)
			}
		})
		_, more, err := d.reviewer(t, newHosts()).PullRequests(t.Context(), "main")
		if err != nil || !more || pages != 20 {
			t.Errorf("%d pages, more %v, error %v", pages, more, err)
		}
	})
}

// TestTheTokenStaysOnItsHost: a next page on another host is not requested.
func TestTheTokenStaysOnItsHost(t *testing.T) {
	d := dialects()["bitbucket"]
	for _, next := range []string{"http://evil.example.com/2.0/x?page=2", "https://api.bitbucket.org/2.0/x?page=2", "/x", "http://%zz"} {
		sent := hosts(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"values": [], "next": %q}`, next)
		})
		if _, _, err := d.reviewer(t, newHosts()).PullRequests(t.Context(), "main"); !as[*report.UnavailableError](err) || len(*sent) != 1 {
			t.Errorf("%s: error %v, %d requests", next, err, len(*sent))
		}
	}
}

// TestABranchOfAnyName is requested by its exact name.
func TestABranchOfAnyName(t *testing.T) {
	eachForge(t, func(t *testing.T, d dialect, f forge) {
		sent := hosts(t, func(w http.ResponseWriter, r *http.Request) { f.page.serve(w, r, nil) })
		if _, _, err := d.reviewer(t, newHosts()).PullRequests(t.Context(), `a"&b=\c#d`); err != nil || strings.ContainsAny((*sent)[0].URL, `"\#`) || strings.Contains((*sent)[0].URL, "&b=") {
			t.Errorf("error %v, sent %s", err, (*sent)[0].URL)
		}
		if d.provider == "bitbucket" && !strings.Contains((*sent)[0].URL, `%22a%5C%22%26b%3D%5C%5Cc%23d%22`) {
			t.Errorf("the name is not quoted: %s", (*sent)[0].URL)
		}
	})
}

// TestACommentIsWrittenAndEdited, each with the documented request.
func TestACommentIsWrittenAndEdited(t *testing.T) {
	eachForge(t, func(t *testing.T, d dialect, f forge) {
		sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !f.asksSelf(w, r) && r.Method == http.MethodGet:
				_, _ = fmt.Fprint(w, f.wraps([]string{f.comment(30, "octocat", "hello"), f.comment(31, f.me, "mine"), f.comment(32, f.me, "mine too")}))
			case r.Method == f.edits:
				_, _ = fmt.Fprint(w, f.comment(31, f.me, "x"))
			case r.Method == http.MethodPost:
				_, _ = fmt.Fprint(w, f.written(31, "x"))
			}
		})
		r := d.reviewer(t, newHosts())
		there, err := r.OwnComments(t.Context(), 7)
		if err != nil || len(there) != 2 || there[0].ID != 31 || there[0].Body != "mine" || there[1].ID != 32 {
			t.Fatalf("comments %v, error %v", there, err)
		}
		made, err := r.Comment(t.Context(), 7, report.Comment{}, "text")
		if err != nil || made.ID != 31 {
			t.Fatalf("a new comment: %v, error %v", made, err)
		}
		for _, of := range []report.Comment{there[0], made} {
			edited, err := r.Comment(t.Context(), 7, of, "text")
			if err != nil || edited.ID != 31 || edited.Thread != of.Thread {
				t.Fatalf("an edit of %v: %v, error %v", of, edited, err)
			}
		}
		if diff := cmp.Diff(there[0], made, cmpopts.IgnoreFields(report.Comment{}, "Body"), cmpopts.IgnoreUnexported(report.Comment{})); diff != "" {
			t.Errorf("a comment that was read and one that was written differ:\n%s", diff)
		}
		calls := (*sent)[1:] // the first looks up the token's user
		want := []string{"GET " + f.comments, "POST " + f.made, f.edits + " " + f.edited, f.edits + " " + f.edited}
		for i, call := range calls {
			if got := call.Method + " " + call.URL; got != want[i] {
				t.Errorf("sent %s, want %s", got, want[i])
			}
			if call.Method == http.MethodGet {
				continue
			}
			if diff := cmp.Diff(f.body(call.Method != http.MethodPost), call.Body); diff != "" {
				t.Errorf("body of %s (-want +got):\n%s", want[i], diff)
			}
		}
	})
}

// TestACommentIsReadAgain, by what it is known by, and one that was deleted or is another user's is none.
func TestACommentIsReadAgain(t *testing.T) {
	eachForge(t, func(t *testing.T, d dialect, f forge) {
		for name, c := range map[string]struct {
			code   int
			answer string
			id     int64
		}{
			"edited":         {http.StatusOK, f.comment(31, f.me, "edited"), 31},
			"another user's": {http.StatusOK, f.comment(31, "octocat", "edited"), 0},
			"gone":           {http.StatusNotFound, `{}`, 0},
			"deleted":        {http.StatusOK, strings.NewReplacer(`"deleted": false`, `"deleted": true`, `"commentType": "text"`, `"isDeleted": true`).Replace(f.comment(31, f.me, "")), 0},
		} {
			if name == "deleted" && d.provider != "bitbucket" && d.provider != "azuredevops" {
				continue // the others have it no more
			}
			sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
				if !f.asksSelf(w, r) {
					w.WriteHeader(c.code)
					_, _ = fmt.Fprint(w, c.answer)
				}
			})
			known := report.Comment{ID: 31}
			if d.provider == "azuredevops" {
				known.Thread = 141
			}
			got, err := d.reviewer(t, newHosts()).OwnComment(t.Context(), 7, known)
			if err != nil || got.ID != c.id || c.id != 0 && (got.Body != "edited" || got.Thread != known.Thread) {
				t.Errorf("%s: %v, error %v", name, got, err)
			}
			if last := (*sent)[len(*sent)-1]; len(*sent) != 2 || last.Method != http.MethodGet || last.URL != f.edited {
				t.Errorf("%s: sent %s %s in %d requests", name, last.Method, last.URL, len(*sent))
			}
		}
	})
}

// asksSelf answers a request for whose the token is.
func (f forge) asksSelf(w http.ResponseWriter, r *http.Request) bool {
	asked := r.Host + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		asked += "?" + r.URL.RawQuery
	}
	if asked != f.self {
		return false
	}
	f.who(w)
	return true
}

// TestOnlyOwnCommentsAreOurs: any commenter can copy our marker, and even use it first.
func TestOnlyOwnCommentsAreOurs(t *testing.T) {
	eachForge(t, func(t *testing.T, d dialect, f forge) {
		selves := 0
		sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
			if f.asksSelf(w, r) {
				selves++
				return
			}
			_, _ = fmt.Fprint(w, f.wraps([]string{f.comment(30, "octocat", "<!-- plumbline:1 -->"), f.comment(31, "", "<!-- plumbline:1 -->"), f.comment(32, f.me+"x", "<!-- plumbline:1 -->")}))
		})
		all := newHosts()
		for range 3 {
			if got, err := d.reviewer(t, all).OwnComments(t.Context(), 7); err != nil || len(got) != 0 {
				t.Fatalf("comments %v, error %v", got, err)
			}
		}
		if selves != 1 || len(*sent) != 4 {
			t.Errorf("the host is asked %d times who the token is of, in %d requests", selves, len(*sent))
		}
		if d.provider == "github" && f.me == "fleet-plans[bot]" && !strings.HasPrefix((*sent)[0].Header.Get("Authorization"), "Bearer ey") {
			t.Error("an app asks for itself by another proof than its key's")
		}
		d.secret["ca.crt"] = string(internet.ca) // another Secret may be another user's
		if _, err := d.reviewer(t, all).OwnComments(t.Context(), 7); err != nil || selves != 2 {
			t.Errorf("with another Secret the host is asked %d times, error %v", selves, err)
		}
	})
}

// TestATokenThatIsNobodys: if the token's user is unknown, no comment is edited, and the error says what to do.
func TestATokenThatIsNobodys(t *testing.T) {
	eachForge(t, func(t *testing.T, d dialect, f forge) {
		for code, is := range map[int]func(error) bool{
			http.StatusUnauthorized: as[*report.UnauthorizedError], http.StatusForbidden: as[*report.UnauthorizedError], http.StatusOK: as[*report.UnavailableError],
		} {
			sent := hosts(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				_, _ = fmt.Fprint(w, `{}`)
			})
			_, err := d.reviewer(t, newHosts()).OwnComments(t.Context(), 7)
			if !is(err) || !strings.Contains(err.Error(), "the token's own user") || len(*sent) != 1 {
				t.Errorf("%d: %d requests, %T: %v", code, len(*sent), err, err)
			}
			if d.provider == "bitbucket" && code != http.StatusOK && !strings.Contains(err.Error(), "read:user:bitbucket") || d.provider == "gitea" && code != http.StatusOK && !strings.Contains(err.Error(), "read:user") {
				t.Errorf("the error does not say what to give: %v", err)
			}
		}
	})
}
