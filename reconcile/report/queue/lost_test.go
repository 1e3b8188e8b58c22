package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

func TestAnUnknownCommitIsGivenUpInTheEnd(t *testing.T) {
	l := &Lane{}
	l.put("0123456789", fine, "", noon)
	at := noon
	for tries := 0; len(l.Waiting) > 0; tries++ {
		if tries > 100 {
			t.Fatal("it is tried for ever")
		}
		if l.Lost != "" {
			t.Errorf("given up after %s", at.Sub(noon))
		}
		l.failed(try(t, l, at), &report.NotFoundError{Repository: "acme/fleet"}, false)
		if next, any := l.due(); any {
			at = next
		}
	}
	if at.Sub(noon) < patience || !strings.Contains(l.trouble(), "given up on commit 0123456: ") {
		t.Errorf("given up after %s: %s", at.Sub(noon), l.trouble())
	}
}

// TestTheNewestIsNotGivenUp: else the host would go on showing an older one, a success perhaps. It is tried
// again every quarter of an hour, or when a person asks for it, and what is wrong is reported meanwhile.
func TestTheNewestIsNotGivenUp(t *testing.T) {
	for name, err := range map[string]error{"404": &report.NotFoundError{Repository: "acme/fleet"}, "422": &report.RejectedError{Code: 422, Said: "too many"}} {
		t.Run(name, func(t *testing.T) {
			l := &Lane{}
			l.put("0123456789", fine, "", noon)
			at, told := noon, ""
			for at.Before(noon.Add(5 * patience)) {
				l.failed(try(t, l, at), err, true)
				next, waits := l.due()
				if !waits || next.Sub(at) > lostAgain {
					t.Fatalf("after %s: again in %s, %v", at.Sub(noon), next.Sub(at), waitingIn(l))
				}
				if lasting := at.After(noon.Add(patience)); lasting && (next.Sub(at) != lostAgain || told != "" && l.trouble() != told) {
					t.Fatalf("after %s: again in %s, and it tells %q after %q", at.Sub(noon), next.Sub(at), l.trouble(), told)
				} else if lasting {
					told = l.trouble()
				}
				at = next
			}
			if !strings.Contains(told, "0123456 is not taken, and tried again every 15m0s: "+err.Error()) {
				t.Errorf("it tells %q", told)
			}
			l.retry()
			l.delivered(try(t, l, at.Add(-time.Minute)).entry, at)
			if l.trouble() != "" || len(l.Waiting) > 0 {
				t.Errorf("it is taken, and: %q %v", l.trouble(), waitingIn(l))
			}
		})
	}
}
