package pulls

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

func equal[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestAPullRequestIsPlannedOnce, and again when its head, the NodeSync or the applied state has changed, or after ten
// minutes.
func TestAPullRequestIsPlannedOnce(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{})
	w.pull(1, "a", "ann", false)
	w.after(5 * time.Minute)
	equal(t, "plans", []string{"a"}, w.plans)
	equal(t, "said", []string{"a success no change"}, w.said())
	w.after(6 * time.Minute)
	equal(t, "plans after ten minutes", []string{"a", "a"}, w.plans)
	w.pull(1, "b", "ann", false)
	w.after(2 * time.Minute)
	equal(t, "plans of another head", []string{"a", "a", "b"}, w.plans)
	equal(t, "said", []string{"b success no change"}, w.said())
	w.change(func(s *v1alpha1.NodeSync) { s.Status.LastAppliedRevision = "main@sha1:1111" })
	w.after(2 * time.Minute)
	equal(t, "plans after a merge", []string{"a", "a", "b", "b"}, w.plans)
	w.close(1)
	w.after(2 * time.Minute)
	equal(t, "said of a closed one", nil, w.said())
	equal(t, "what the source keeps", 0, len(w.kept))
}

// TestForksAreIgnored, unless enabled: then no Secret is read for them.
func TestForksAreIgnored(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{})
	w.pull(1, "a", "ann", true)
	w.pull(2, "b", "bob", false)
	w.after(2 * time.Minute)
	equal(t, "plans", []string{"b"}, w.plans)
	w.makes = func(s *review.Step) (*review.Preview, error) {
		if s.Withheld != (s.Snapshot.Commit == "a") {
			t.Errorf("plan of %s: withheld %v", s.Snapshot.Commit, s.Withheld)
		}
		made := &plan.Plan{Changes: []plan.Change{{Ref: render.Ref{Kind: render.NodePool, Name: "web"}, Action: plan.Create}}}
		if s.Withheld {
			_, words := s.InstanceTypes(t.Context(), "eu-west-1", made, plan.Live{})
			if s.Ask != nil || !strings.Contains(strings.Join(words, ""), "meets NodePool/web: AWS is not asked") {
				t.Error("AWS is asked for a pull request from a fork")
			}
		}
		return &review.Preview{}, nil
	}
	w.change(func(s *v1alpha1.NodeSync) {
		s.Spec.Report[0].PullRequests.Forks, s.Generation, s.Status.ObservedGeneration = true, 2, 2
	})
	w.after(2 * time.Minute)
	equal(t, "said", []string{"b success no change", "a success no change"}, w.said())
}

// TestNothingStarves: of 200 open ones, the newest 50 are followed; two per minute of one author are planned, ten in
// total, and another author's is planned immediately.
func TestNothingStarves(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{})
	for i := range 200 {
		w.pull(i+1, fmt.Sprint("a", i), "ann", false)
	}
	w.pull(300, "b", "bob", false)
	w.after(time.Minute)
	if n := len(w.plans); n < 3 || n > 5 {
		t.Errorf("%d plans in the first minute: %v", n, w.plans)
	}
	if !strings.Contains(strings.Join(w.said(), "\n"), "b success") {
		t.Errorf("bob's waits for ann's: %v", w.said())
	}
	w.after(30 * time.Minute)
	equal(t, "followed", 50, w.count(" success no change"))
	equal(t, "told that they wait", 50, w.count(" pending "+overLimit.Description))
	many := newWorld(t, v1alpha1.PullRequests{})
	for i := range 50 {
		many.pull(i+1, fmt.Sprint("a", i), fmt.Sprint("author", i), false)
	}
	many.after(time.Minute)
	if n := len(many.plans); n < 15 || n > 21 {
		t.Errorf("%d plans of many authors in the first minute", n)
	}
}

// TestAHostThatRefusesIsAskedSeldom, and the status gives the reason, once.
func TestAHostThatRefusesIsAskedSeldom(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{})
	w.pull(1, "a", "ann", false)
	w.after(10 * time.Second)
	w.refuses = &report.UnavailableError{Host: "git.example.com", Code: 502}
	before := w.lists
	w.after(time.Hour)
	if n := w.lists - before; n < 6 || n > 14 {
		t.Errorf("asked %d times in an hour", n)
	}
	equal(t, "said", []string{"a success no change", "unlisted: " + w.refuses.Error()}, w.said())
	w.refuses = &report.RateLimitedError{Host: "git.example.com", RetryAfter: 40 * time.Minute}
	w.after(11 * time.Minute)
	before = w.lists
	w.after(25 * time.Minute)
	equal(t, "asked while the host wants no requests", before, w.lists)
	w.refuses = nil
	w.after(20 * time.Minute)
	equal(t, "said", []string{"a success no change"}, w.said())
}

// TestAHeadWithoutAReference is fetched by its hash.
func TestAHeadWithoutAReference(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Forks: true})
	w.heads["a"] = "a"
	w.openOne(report.PullRequest{Number: 1, Head: "a", Base: "main", Author: "ann", Fork: true})
	w.after(time.Minute)
	equal(t, "said", []string{"a success no change"}, w.said())
}

// TestWhatIsSaidOfAFetch: an exceeded limit is reported on the head, a temporary error is not.
func TestWhatIsSaidOfAFetch(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{})
	w.pull(1, "a", "ann", false)
	w.fetch = &source.LimitError{What: "the repository", Limit: 256 << 20}
	w.after(time.Minute)
	if got := strings.Join(w.said(), ""); !strings.HasPrefix(got, "a failure refused: ") {
		t.Errorf("a file that is too large: %s", got)
	}
	w.pull(1, "b", "ann", false)
	w.fetch = &source.UnreachableError{URL: "https://git.example.com", Err: errors.New("refused")}
	w.after(3 * time.Minute)
	equal(t, "said while the host is away", nil, w.said())
	w.fetch = nil
	w.after(15 * time.Minute)
	equal(t, "said once it is back", []string{"b success no change"}, w.said())
	w.pull(2, "x", "bob", false)
	w.heads["refs/pull/2/head"] = "y" // force-pushed since it was listed
	before := len(w.plans)
	w.after(2 * time.Minute)
	equal(t, "plans of a head that is not the one listed", before, len(w.plans))
	equal(t, "said of it", []string{"b success no change"}, w.said())
	w.close(2)
	w.pull(3, "z", "cid", false)
	delete(w.heads, "refs/pull/3/head")
	w.after(2 * time.Minute)
	equal(t, "said of a head that is gone", []string{"b success no change"}, w.said())
	w.close(3)
	w.pull(1, "c", "ann", false)
	w.after(15 * time.Minute)
	equal(t, "said", []string{"c success no change"}, w.said())
	w.order = source.OrderDiverged
	w.after(11 * time.Minute)
	equal(t, "said of one that lacks what is in force", []string{"c success behind main: no change"}, w.said())
	w.change(func(s *v1alpha1.NodeSync) { s.Status.LastAttemptedRevision = "main@sha1:0123456789" })
	w.after(2 * time.Minute)
	lacks := []string{"c failure lacks 0123456 of main, which is not in force yet: update the branch; as it is: no change"}
	equal(t, "said of one that lacks what is held", lacks, w.said())
	w.unordered = &source.HistoryError{Reason: "its base is too old"}
	w.after(11 * time.Minute)
	equal(t, "said of one of which the history does not tell", lacks, w.said())
	w.unordered = nil
	w.makes = func(*review.Step) (*review.Preview, error) {
		return &review.Preview{Plan: &plan.Plan{}, Desired: evaluate.Desired{Set: &render.Set{Sum: "inputs"}}}, nil
	}
	w.after(11 * time.Minute)
	equal(t, "said of one that changes something", lacks, w.said())
	w.change(func(s *v1alpha1.NodeSync) { s.Status.LastAppliedInputs = "inputs" })
	w.after(11 * time.Minute)
	equal(t, "said of one that reads the same, and comes from before that", lacks, w.said())
	w.orders = map[string]source.Order{"0000": source.OrderNewer}
	w.after(11 * time.Minute)
	equal(t, "said of one that changes nothing", []string{"c success no change"}, w.said())
	w.orders = nil
	w.change(func(s *v1alpha1.NodeSync) { s.Status.LastAppliedRevision = "main@sha1:0123456789" })
	w.order = source.OrderNewer
	w.after(2 * time.Minute)
	equal(t, "said once it is in force", []string{"c success no change"}, w.said())
}

// TestWordsStandUntilThereIsAnotherPlan: a new daemon drops no earlier status.
func TestWordsStandUntilThereIsAnotherPlan(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{})
	w.pull(1, "a", "ann", false)
	w.after(time.Minute)
	w.start()
	w.makes = func(*review.Step) (*review.Preview, error) { return nil, errors.New("the API server is away") }
	w.refuses = &report.UnavailableError{Host: "git.example.com"}
	w.after(time.Minute)
	equal(t, "said", "a success no change", w.said()[0])
}

// TestNobodyIsFollowedBeforeAPass has observed the cluster, nor if the NodeSync follows no branch.
func TestNobodyIsFollowedBeforeAPass(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{})
	w.pull(1, "a", "ann", false)
	w.change(func(s *v1alpha1.NodeSync) { s.Status.LastAppliedRevision = "" })
	w.after(time.Minute)
	equal(t, "lists", 0, w.lists)
	w.change(func(s *v1alpha1.NodeSync) {
		s.Status.LastAppliedRevision, s.Spec.Source.Git.Ref.Tag = "v1@sha1:0000", "v1"
	})
	w.after(time.Minute)
	equal(t, "said", []string{"unlisted: " + errNoBranch.Error()}, w.said())
}
