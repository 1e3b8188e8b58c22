package cloud

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// history answers CloudTrail's LookupEvents with two pages.
type history struct{ denies, more bool }

func (h history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	body, _ := io.ReadAll(r.Body)
	record := func(text string) string { return fmt.Sprintf(`{"EventName":"x","CloudTrailEvent":%q}`, text) }
	switch {
	case h.denies:
		w.Header().Set("X-Amzn-ErrorType", "AccessDeniedException")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"__type":"AccessDeniedException","message":"no"}`)
	case !strings.Contains(string(body), `"EventName"`) || !strings.Contains(string(body), TerminateInstances):
		http.Error(w, "it does not look up an event's name", http.StatusBadRequest)
	case strings.Contains(string(body), "NextToken") && !h.more:
		fmt.Fprintf(w, `{"Events":[%s]}`, record(`{"eventTime":"2026-12-01T09:00:00Z","userIdentity":{"arn":"arn:user/ann"},"requestParameters":null}`))
	default:
		fmt.Fprintf(w, `{"NextToken":"2","Events":[%s,%s]}`,
			record(`{"eventTime":"2026-12-01T10:00:00Z","userIdentity":{"arn":"arn:session","sessionContext":{"sessionIssuer":{"arn":"arn:role"}}},`+
				`"requestParameters":{"instancesSet":{"items":[{"instanceId":"i-2"},{"instanceId":"i-1"}]}},"responseElements":{"instancesSet":{"items":[{"instanceId":"i-1"}]}}}`),
			record(`{"eventTime":"2026-12-01T10:00:00Z","errorCode":"Client.UnauthorizedOperation","userIdentity":{"arn":"arn:x"}}`))
	}
}

// TestTrail: a session is its role, failed calls are omitted, and pages are half a second apart.
func TestTrail(t *testing.T) {
	at := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	began := time.Now()
	got, err := connect(t, history{}, Options{Attempts: 1}).Trail(t.Context(), TerminateInstances, at, at, 5)
	want := []TrailCall{{At: at, Principal: "arn:role", Instances: []string{"i-1", "i-2"}}, {At: at.Add(-time.Hour), Principal: "arn:user/ann"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if took := time.Since(began); took < trailSpacing {
		t.Errorf("two requests within %s", took)
	}
	var partial *PartialError
	if got, err := connect(t, history{more: true}, Options{Attempts: 1}).Trail(t.Context(), TerminateInstances, at, at, 2); !errors.As(err, &partial) || len(got) != 2 {
		t.Errorf("%d calls, %v", len(got), err)
	}
	var denied *DeniedError
	if _, err := connect(t, history{denies: true}, Options{Attempts: 1}).Trail(t.Context(), TerminateInstances, at, at, 2); !errors.As(err, &denied) || denied.Action != "cloudtrail:LookupEvents" {
		t.Errorf("denied: %v", err)
	}
}
