package pulls

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/review"
)

// TestAForkDelaysNoOther: while one from a fork is being planned, the repository's own are. Its plan is reported, unless
// its head has changed meanwhile.
func TestAForkDelaysNoOther(t *testing.T) {
	for name, push := range map[string]bool{"the same head": false, "another head": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.PullRequests{Forks: true})
			w.follower.begin = w.follower.workers.Go
			begun, goOn := make(chan struct{}), make(chan struct{})
			w.makes = func(s *review.Step) (*review.Preview, error) {
				if s.Withheld {
					begun <- struct{}{}
					<-goOn
				}
				return &review.Preview{Plan: &plan.Plan{}}, nil
			}
			w.pull(1, "fork", "bob", true)
			w.follower.turn(t.Context())
			<-begun
			w.now = w.now.Add(2 * time.Minute)
			w.pull(2, "own", "ann", false)
			want := []string{"own success no change", "fork success no change"}
			if push {
				w.pull(1, "pushed", "bob", true)
				want = want[:1]
			}
			w.follower.turn(t.Context())
			equal(t, "said while the fork is being planned", []string{"own success no change"}, w.said())
			close(goOn)
			w.follower.concludeFork(t.Context(), <-w.follower.forkPlanned)
			equal(t, "said", want, w.said())
		})
	}
}

// TestOwnPullRequestsComeFirst: 48 forks, each of which takes almost two minutes to plan, delay one of the repository's
// own by at most the plan in progress, even if both have only one processor.
func TestOwnPullRequestsComeFirst(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Forks: true})
	const slow = 108 * time.Second
	w.makes = func(s *review.Step) (*review.Preview, error) {
		if s.Withheld {
			w.now = w.now.Add(slow)
		}
		return &review.Preview{Plan: &plan.Plan{}}, nil
	}
	for i := range 48 {
		w.pull(i+1, fmt.Sprint("fork", i), fmt.Sprint("author", i), true)
	}
	// A slow plan takes a whole turn, and there is always another one, so that turns advance the time.
	busy := func(d time.Duration, enough func() bool) {
		for end := w.now.Add(d); w.now.Before(end) && !enough(); {
			if w.turn() > 0 {
				w.now = w.now.Add(time.Second)
			}
		}
	}
	never := func() bool { return false }
	busy(2*slow, never)
	before := len(w.plans)
	if before == 0 {
		t.Fatal("no fork is planned")
	}
	for i := range 2 { // a host lists the newest 50
		w.pull(100+i, fmt.Sprint("own", i), "ann", false)
	}
	busy(2*slow, func() bool { return strings.HasPrefix(w.plans[len(w.plans)-1], "own") })
	if !strings.HasPrefix(w.plans[len(w.plans)-1], "own") {
		t.Fatalf("the repository's own waits behind %d forks", len(w.plans)-before)
	}
	if forks := len(w.plans) - before - 1; forks > 1 {
		t.Errorf("the repository's own waits behind %d forks, want at most the one that is being planned", forks)
	}
	busy(2*time.Hour, never)
	for i := range 48 {
		if !slices.Contains(w.plans, fmt.Sprint("fork", i)) {
			t.Errorf("fork %d is never planned", i)
		}
	}
}

// TestForksHaveTheirOwnLimit: forks do not use up the limit of the repository's own.
func TestForksHaveTheirOwnLimit(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Forks: true})
	for i := range 48 {
		w.pull(i+1, fmt.Sprint("fork", i), fmt.Sprint("author", i), true)
	}
	w.after(time.Minute)
	if n := len(w.plans); n < forksBurst || n > forksBurst+4 {
		t.Errorf("%d plans of forks in the first minute", n)
	}
	before := len(w.plans)
	for i := range ownBurst {
		w.pull(100+i, fmt.Sprint("own", i), fmt.Sprint("member", i), false)
	}
	for _, r := range w.follower.followed {
		w.after(r.listAt.Sub(w.now) + time.Second)
	}
	planned := w.plans[before:]
	first := max(0, slices.IndexFunc(planned, func(head string) bool { return strings.HasPrefix(head, "own") }))
	own := planned[first:min(first+ownBurst, len(planned))]
	if len(own) < ownBurst || slices.ContainsFunc(own, func(head string) bool { return !strings.HasPrefix(head, "own") }) {
		t.Errorf("planned %v, want all %d of the repository's own at once", planned, ownBurst)
	}
}

// TestOrder: new before renewed, earlier before later.
func TestOrder(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	want := []order{
		{fresh: true, at: early},
		{fresh: true, at: late},
		{at: early},
		{at: late},
	}
	for i := range want {
		for j := range want {
			if got := want[i].before(want[j]); got != (i < j) {
				t.Errorf("%+v before %+v is %v", want[i], want[j], got)
			}
		}
	}
}
