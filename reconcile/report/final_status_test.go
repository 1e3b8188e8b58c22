package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestFarewell shows that the newest commit, and each that is still pending, gets the final status once.
func TestFarewell(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	host := Host{Provider: "gitea", URL: "https://git.example.com/acme/fleet", Secret: "token"}
	pending := Word{State: Pending, Description: "removing NodePool/a"}
	failed := Word{State: Failure, Description: "odd"}
	last := Word{State: Success, Description: "drained and deleted"}
	l := Ledger{
		Context: "plumbline/prod/x", Head: "3",
		Commits: []Commit{{ID: "3", Word: pending}, {ID: "2", Word: pending, Phase: PhaseSuperseded}, {ID: "1", Word: failed, Phase: PhaseSettled}},
		Lanes: []Lane{
			{Host: host, Context: "plumbline/prod/x", Waiting: []Entry{{Commit: "3", Word: pending, Since: now}}},
			{Host: host, Context: "plumbline/ns/x", Moved: []Commit{{ID: "0", Word: pending}}},
		},
	}
	if l.finalStatusDone(now) {
		t.Fatal("nothing was said yet")
	}
	page := func(_ Host, commit string) string { return "page of " + commit }
	l.finish(true, FinalStatus{Description: "drained and deleted", Page: page, At: now})
	entry := func(commit string) Entry {
		return Entry{Commit: commit, Word: last, TargetURL: "page of " + commit, Since: now}
	}
	for i, want := range [][]Entry{{entry("3"), entry("2")}, {entry("0")}} {
		if diff := cmp.Diff(want, l.Lanes[i].Waiting); diff != "" {
			t.Errorf("lane %d (-want +got):\n%s", i, diff)
		}
	}
	if l.Commits[2].Word != failed {
		t.Errorf("a final word of an older commit was changed: %+v", l.Commits[2])
	}
	for i := range l.Lanes {
		for len(l.Lanes[i].Waiting) > 0 {
			if l.finalStatusDone(now.Add(time.Second)) {
				t.Fatal("a host has not got it yet")
			}
			l.Lanes[i].delivered(l.Lanes[i].Waiting[0], now)
		}
	}
	if !l.finalStatusDone(now.Add(time.Second)) {
		t.Error("the hosts have it, and are waited for")
	}
	l.finish(true, FinalStatus{Description: "something else", Page: page, At: now.Add(time.Second)})
	if len(l.Lanes[0].Waiting) > 0 {
		t.Errorf("it is said twice: %+v", l.Lanes[0].Waiting)
	}
}

// TestFarewellIsBounded shows that no host delays the deletion of a NodeSync for longer than that.
func TestFarewellIsBounded(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	waits := func(change func(*Lane)) Ledger {
		l := Ledger{FinalStatusAt: now, Commits: []Commit{{ID: "1"}}, Lanes: []Lane{{Waiting: []Entry{{Commit: "1"}}}}}
		change(&l.Lanes[0])
		return l
	}
	away, refused := waits(func(*Lane) {}), waits(func(l *Lane) { l.Refused = "v1" })
	for name, c := range map[string]struct {
		ledger Ledger
		after  time.Duration
		want   bool
	}{
		"away":                       {away, FinalStatusPatience - time.Second, false},
		"away for long":              {away, FinalStatusPatience, true},
		"the clock was put back":     {away, -time.Hour, true},
		"it refuses the Secret":      {refused, 0, true},
		"nothing was ever said":      {Ledger{}, 0, true},
		"no host is to be told":      {Ledger{Commits: []Commit{{ID: "1"}}}, 0, true},
		"the last word was not said": {Ledger{Commits: []Commit{{ID: "1"}}, Lanes: []Lane{{}}}, 0, false},
	} {
		if got := c.ledger.finalStatusDone(now.Add(c.after)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
