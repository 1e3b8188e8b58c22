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

func (d dialect) amender(t *testing.T) report.Amender {
	t.Helper()
	secret := map[string][]byte{}
	for key, value := range d.secret {
		secret[key] = []byte(value)
	}
	a, err := (&report.Hosts{Now: time.Now}).Amender(d.provider, d.repository, secret)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestOpenPullRequestsOfAPrefix: only open ones, of this repository, into that branch, the oldest first.
func TestOpenPullRequestsOfAPrefix(t *testing.T) {
	eachProposer(t, func(t *testing.T, d dialect, p proposing) {
		other := strings.ReplaceAll(p.pull(9, report.ProposedOpen, false), branch, "feature")
		elsewhere := strings.ReplaceAll(p.pull(5, report.ProposedOpen, false), `"main"`, `"next"`)
		list := "[" + strings.Join([]string{
			other, p.pull(8, report.ProposedOpen, false), p.pull(7, report.ProposedOpen, false), p.pull(6, report.ProposedOpen, true), elsewhere,
		}, ",") + "]"
		sent := hosts(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, list) })
		found, err := d.amender(t).Opened(t.Context(), "main", "plumbline/")
		var numbers []int
		for _, one := range found {
			numbers = append(numbers, one.Number)
		}
		if diff := cmp.Diff([]int{7, 8}, numbers); err != nil || diff != "" {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
		if len(*sent) != 1 || !strings.Contains((*sent)[0].URL, "state=open") {
			t.Errorf("sent %v", *sent)
		}
	})
}

// TestAPullRequestIsAmended with the documented request.
func TestAPullRequestIsAmended(t *testing.T) {
	eachProposer(t, func(t *testing.T, d dialect, p proposing) {
		sent := hosts(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, p.pull(7, report.ProposedClosed, false))
		})
		if err := d.amender(t).Amend(t.Context(), 7, report.Amendment{Title: "new", Body: "text", Close: true}); err != nil {
			t.Fatal(err)
		}
		method, body := http.MethodPatch, map[string]any{"title": "new", "body": "text", "state": "closed"}
		if d.provider == "gitlab" {
			method, body = http.MethodPut, map[string]any{"title": "new", "description": "text", "state_event": "close"}
		}
		if len(*sent) != 1 || (*sent)[0].Method != method || (*sent)[0].URL != p.open+"/7" {
			t.Fatalf("sent %v, want %s %s/7", *sent, method, p.open)
		}
		if diff := cmp.Diff(body, (*sent)[0].Body); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
		hosts(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
		if err := d.amender(t).Amend(t.Context(), 7, report.Amendment{Title: "new"}); !as[*report.UnauthorizedError](err) {
			t.Errorf("got %v, want an UnauthorizedError", err)
		}
	})
}
