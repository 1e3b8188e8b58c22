package report_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

const (
	branch     = "plumbline/revert-prod-fleet-0123abcd"
	proposedAt = "https://git.example.com/acme/fleet/pulls/7"
)

var proposal = report.Proposal{Branch: branch, Base: "main", Title: "Revert", Body: "because"}

// proposing describes how one kind of host opens pull requests, according to its documentation.
type proposing struct {
	// list is where they are searched, and open where one is created.
	list, open string
	body       map[string]any
	// pull is one in a list: its number, its state, and whether it is from a fork.
	pull func(number int, state report.ProposedState, fork bool) string
	// there is the response if one is already open.
	there     int
	thereBody string
}

func githubPull(number int, state report.ProposedState, fork bool) string {
	merged, closed, from := "null", "closed", 5
	switch state {
	case report.ProposedOpen:
		closed = "open"
	case report.ProposedMerged:
		merged = `"2026-01-01T00:00:00Z"`
	case report.ProposedClosed:
	}
	if fork {
		from = 6
	}
	return fmt.Sprintf(`{"number": %d, "html_url": "https://git.example.com/acme/fleet/pulls/%d", "state": %q, "merged_at": %s, "user": {"login": "octocat"},
		"head": {"label": "acme:%s", "ref": %q, "sha": "aa", "repo": {"id": %d}}, "base": {"label": "acme:main", "ref": "main", "sha": "00", "repo": {"id": 5}}}`,
		number, number, closed, merged, branch, branch, from)
}

// giteaPull has another ref after its branch was deleted, as after a merge.
func giteaPull(number int, state report.ProposedState, fork bool) string {
	pull := strings.Replace(githubPull(number, state, fork), `"acme:`+branch+`"`, `"`+branch+`"`, 1)
	if state == report.ProposedMerged {
		pull = strings.Replace(pull, `"ref": "`+branch+`"`, fmt.Sprintf(`"ref": "refs/pull/%d/head"`, number), 1)
	}
	return pull
}

func gitlabPull(number int, state report.ProposedState, fork bool) string {
	from := 5
	if fork {
		from = 6
	}
	word := map[report.ProposedState]string{report.ProposedOpen: "opened", report.ProposedMerged: "merged", report.ProposedClosed: "closed"}[state]
	return fmt.Sprintf(`{"iid": %d, "web_url": "https://git.example.com/acme/fleet/pulls/%d", "state": %q, "sha": "aa", "source_branch": %q, "target_branch": "main", "source_project_id": %d, "target_project_id": 5}`,
		number, number, word, branch, from)
}

func proposers() map[string]proposing {
	body := map[string]any{"title": "Revert", "body": "because", "head": branch, "base": "main"}
	github := proposing{
		list: "api.github.com/repos/acme/fleet/pulls?base=main&direction=desc&head=acme%3Aplumbline%2Frevert-prod-fleet-0123abcd&page=1&per_page=50&sort=created&state=all",
		open: "api.github.com/repos/acme/fleet/pulls", body: body, pull: githubPull, there: http.StatusUnprocessableEntity,
		thereBody: `{"message": "Validation Failed", "errors": [{"resource": "PullRequest", "code": "custom", "message": "A pull request already exists for acme:x."}]}`,
	}
	return map[string]proposing{
		"github": github, "github app": github,
		"gitea": {
			list: "git.example.com:3000/api/v1/repos/acme/fleet/pulls?limit=50&page=1&state=all",
			open: "git.example.com:3000/api/v1/repos/acme/fleet/pulls", body: body, pull: giteaPull, there: http.StatusConflict,
			thereBody: `{"message": "pull request already exists for these targets", "url": "https://git.example.com/api/swagger"}`,
		},
		"gitlab": {
			list: "gitlab.com/api/v4/projects/acme%2Finfra%2Feu%2Ffleet/merge_requests?order_by=created_at&page=1&per_page=50&sort=desc&source_branch=plumbline%2Frevert-prod-fleet-0123abcd&state=all&target_branch=main",
			open: "gitlab.com/api/v4/projects/acme%2Finfra%2Feu%2Ffleet/merge_requests", pull: gitlabPull, there: http.StatusConflict,
			body:      map[string]any{"title": "Revert", "description": "because", "source_branch": branch, "target_branch": "main", "remove_source_branch": true},
			thereBody: `{"message": ["Another open merge request already exists for this source branch: !7"]}`,
		},
	}
}

func (d dialect) proposer(t *testing.T) report.Proposer {
	t.Helper()
	secret := map[string][]byte{}
	for key, value := range d.secret {
		secret[key] = []byte(value)
	}
	p, err := (&report.Hosts{Now: time.Now}).Proposer(d.provider, d.repository, secret)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func eachProposer(t *testing.T, test func(*testing.T, dialect, proposing)) {
	t.Helper()
	for name, p := range proposers() {
		t.Run(name, func(t *testing.T) { test(t, dialects()[name], p) })
	}
}

// TestAPullRequestIsFound by its branch, in any state, and none from a fork with that name.
func TestAPullRequestIsFound(t *testing.T) {
	eachProposer(t, func(t *testing.T, d dialect, p proposing) {
		for _, state := range []report.ProposedState{report.ProposedOpen, report.ProposedMerged, report.ProposedClosed} {
			other := strings.ReplaceAll(p.pull(9, report.ProposedOpen, false), branch, branch+"0")
			list := "[" + strings.Join([]string{other, p.pull(8, report.ProposedOpen, true), p.pull(7, state, false), p.pull(6, report.ProposedClosed, false)}, ",") + "]"
			sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Link", `<http://`+r.Host+r.URL.Path+`>; rel="next"`)
				_, _ = fmt.Fprint(w, list)
			})
			found, err := d.proposer(t).Proposed(t.Context(), branch, "main")
			if diff := cmp.Diff(&report.Proposed{Number: 7, Branch: branch, URL: proposedAt, State: state, Head: "aa"}, found); err != nil || diff != "" {
				t.Errorf("%s: error %v (-want +got):\n%s", state, err, diff)
			}
			if len(*sent) != 1 || (*sent)[0].Method != http.MethodGet || (*sent)[0].URL != p.list || (*sent)[0].Header.Get(d.proof[0]) != d.proof[1] {
				t.Errorf("sent %v, want GET %s", *sent, p.list)
			}
		}
		hosts(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, "["+p.pull(8, report.ProposedOpen, true)+"]")
		})
		if found, err := d.proposer(t).Proposed(t.Context(), branch, "main"); err != nil || found != nil {
			t.Errorf("found %v, error %v", found, err)
		}
	})
}

// TestAnOldPullRequestIsFound: Gitea cannot filter by branch, and has more pages than are read. Then the branch is
// requested directly.
func TestAnOldPullRequestIsFound(t *testing.T) {
	d, p := dialects()["gitea"], proposers()["gitea"]
	other := strings.ReplaceAll(p.pull(2000, report.ProposedOpen, false), branch, branch+"0")
	there := true
	sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/pulls"):
			w.Header().Set("Link", `<http://`+r.Host+r.URL.Path+`>; rel="next"`)
			_, _ = fmt.Fprint(w, "["+other+"]")
		case there:
			_, _ = fmt.Fprint(w, p.pull(7, report.ProposedMerged, false))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	found, err := d.proposer(t).Proposed(t.Context(), branch, "main")
	if diff := cmp.Diff(&report.Proposed{Number: 7, Branch: branch, URL: proposedAt, State: report.ProposedMerged, Head: "aa"}, found); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if last := (*sent)[len(*sent)-1].URL; last != "git.example.com:3000/api/v1/repos/acme/fleet/pulls/main/plumbline/revert-prod-fleet-0123abcd" {
		t.Errorf("asked last for %s", last)
	}
	there = false
	if found, err := d.proposer(t).Proposed(t.Context(), branch, "main"); err != nil || found != nil {
		t.Errorf("found %v, error %v", found, err)
	}
}

// TestAPullRequestIsOpened with the documented request.
func TestAPullRequestIsOpened(t *testing.T) {
	eachProposer(t, func(t *testing.T, d dialect, p proposing) {
		sent := hosts(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprint(w, p.pull(7, report.ProposedOpen, false))
		})
		made, err := d.proposer(t).Propose(t.Context(), proposal)
		if diff := cmp.Diff(&report.Proposed{Number: 7, Branch: branch, URL: proposedAt, State: report.ProposedOpen, Head: "aa"}, made); err != nil || diff != "" {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
		if len(*sent) != 1 || (*sent)[0].Method != http.MethodPost || (*sent)[0].URL != p.open || (*sent)[0].Header.Get(d.proof[0]) != d.proof[1] {
			t.Fatalf("sent %v, want POST %s", *sent, p.open)
		}
		if diff := cmp.Diff(p.body, (*sent)[0].Body); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
	})
}

// TestAPullRequestIsOpenAlready: the response to an earlier request was lost, or another daemon was faster.
func TestAPullRequestIsOpenAlready(t *testing.T) {
	eachProposer(t, func(t *testing.T, d dialect, p proposing) {
		there := true
		hosts(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost:
				w.WriteHeader(p.there)
				_, _ = fmt.Fprint(w, p.thereBody)
			case there:
				_, _ = fmt.Fprint(w, "["+p.pull(7, report.ProposedOpen, false)+"]")
			default:
				_, _ = fmt.Fprint(w, "[]")
			}
		})
		found, err := d.proposer(t).Propose(t.Context(), proposal)
		if err != nil || found == nil || found.URL != proposedAt {
			t.Errorf("found %v, error %v", found, err)
		}
		there = false
		if _, err := d.proposer(t).Propose(t.Context(), proposal); !as[*report.RejectedError](err) || !strings.HasPrefix(err.Error(), "open a pull request on ") {
			t.Errorf("refused for another reason: %v", err)
		}
	})
}

// TestAPullRequestIsRefused: the error says which permission the token is missing.
func TestAPullRequestIsRefused(t *testing.T) {
	cases := map[int]func(error) bool{
		http.StatusUnauthorized: as[*report.UnauthorizedError], http.StatusForbidden: as[*report.UnauthorizedError], http.StatusNotFound: as[*report.UnauthorizedError],
		http.StatusTooManyRequests: as[*report.RateLimitedError], http.StatusInternalServerError: as[*report.UnavailableError], http.StatusOK: as[*report.UnavailableError],
	}
	eachProposer(t, func(t *testing.T, d dialect, _ proposing) {
		for code, is := range cases {
			hosts(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				_, _ = fmt.Fprint(w, "<html>")
			})
			_, err := d.proposer(t).Propose(t.Context(), proposal)
			if !is(err) || !strings.HasPrefix(err.Error(), "open a pull request on ") || strings.Contains(err.Error(), token) {
				t.Errorf("%d: %T: %v", code, err, err)
			}
			if as[*report.UnauthorizedError](err) && !strings.Contains(err.Error(), "give one that may open pull requests") {
				t.Errorf("%d: %v", code, err)
			}
		}
	})
}

// TestOtherHostsOpenNone: they are refused with an error that names the kind.
func TestOtherHostsOpenNone(t *testing.T) {
	for name, d := range dialects() {
		proposes := d.provider == "forgejo"
		for of := range proposers() {
			proposes = proposes || dialects()[of].provider == d.provider
		}
		if report.Proposes(d.provider) != proposes {
			t.Errorf("%s: opens pull requests: %v", name, !proposes)
		}
		secret := map[string][]byte{}
		for key, value := range d.secret {
			secret[key] = []byte(value)
		}
		if _, err := (&report.Hosts{Now: time.Now}).Proposer(d.provider, d.repository, secret); as[*report.RepositoryError](err) == proposes {
			t.Errorf("%s: %v", name, err)
		}
	}
}
