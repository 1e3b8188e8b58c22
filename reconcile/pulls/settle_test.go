package pulls

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// count returns how many heads have a status with the text.
func (w *world) count(text string) int {
	n := 0
	for _, said := range w.said() {
		if strings.Contains(said, text) {
			n++
		}
	}
	return n
}

// TestForksTakeNoPlace: they do not displace the repository's own pull requests, whether forks are followed or not.
func TestForksTakeNoPlace(t *testing.T) {
	for _, forks := range []bool{false, true} {
		t.Run(fmt.Sprint("forks followed: ", forks), func(t *testing.T) {
			w := newWorld(t, v1alpha1.PullRequests{Forks: forks})
			w.pull(1, "own", "ann", false)
			for i := range 120 {
				w.pull(i+2, fmt.Sprint("fork", i), fmt.Sprint("stranger", i), true)
			}
			w.after(time.Minute)
			w.pull(1, "own2", "ann", false)
			w.open = append(w.open[1:], w.open[0]) // a push does not make it newer
			w.after(2 * time.Minute)
			if !slices.Contains(w.said(), "own2 success no change") {
				t.Errorf("said %v", w.said())
			}
			if !forks && len(w.said()) != 1 {
				t.Errorf("said of forks: %v", w.said())
			}
		})
	}
}

// TestAuthorsOfForksTakeTurns: an author who opens many pull requests from a fork does not displace another author's.
func TestAuthorsOfForksTakeTurns(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Forks: true})
	w.pull(1, "bens", "ben", true)
	for i := range 60 {
		w.pull(i+2, fmt.Sprint("mallory", i), "mallory", true)
	}
	w.after(time.Minute)
	if !slices.Contains(w.said(), "bens success no change") {
		t.Errorf("said %v", w.said())
	}
}

// TestAPlanThatIsNotRenewedDoesNotStand: an outdated plan must not remain when many others are opened.
func TestAPlanThatIsNotRenewedDoesNotStand(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{})
	w.pull(1, "a", "ann", false)
	w.after(time.Minute)
	equal(t, "said", []string{"a success no change"}, w.said())
	for i := range 150 {
		w.pull(i+2, fmt.Sprint("b", i), fmt.Sprint("author", i), false)
	}
	w.after(2 * time.Minute)
	if !slices.Contains(w.said(), "a pending "+overLimit.Description) {
		t.Errorf("said %v", w.said())
	}
	w.start() // and after a restart
	w.after(2 * time.Minute)
	if !slices.Contains(w.said(), "a pending "+overLimit.Description) {
		t.Errorf("said %v", w.said())
	}
	for i := range 110 {
		w.close(i + 2)
	}
	w.after(30 * time.Minute)
	if !slices.Contains(w.said(), "a success no change") {
		t.Errorf("said once there is a place: %v", w.said())
	}
	w.more = true
	w.after(2 * time.Minute)
	equal(t, "unlisted", 1, w.count("unlisted: the host has more than 1000 open pull requests: the newest ones are read, and the others have no plan: close some"))
}
