package pulls

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/review"
)

// TestTheWayOverTheRings: a comment shows when which ring takes the commit; one on a pull request from a fork does not.
func TestTheWayOverTheRings(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Comment: true, Forks: true})
	w.change(func(s *v1alpha1.NodeSync) {
		s.Spec.Promotion = &v1alpha1.Promotion{Cluster: "eu", Ring: "prod", MinSoak: &metav1.Duration{Duration: 2 * time.Hour}}
		s.Status.Promotion = &v1alpha1.PromotionStatus{Taken: "0000"}
	})
	w.rings = map[string][]byte{"0000": []byte(`apiVersion: config.plumbline.dev/v1alpha1
kind: Rings
clusters: [{name: dev}, {name: eu, nodeSync: prod}]
rings: [{name: canary, clusters: [dev]}, {name: prod, clusters: [eu]}]
`)}
	w.pull(1, "a", "ann", false)
	w.pull(2, "b", "bob", true)
	w.after(2 * time.Minute)
	const way = "rings: canary at once → prod after 2h; soaks and windows take 2h, and rollouts come on top"
	if got := w.comments[1]; len(got) != 1 || !strings.Contains(got[0].Body, way) {
		t.Errorf("the comment is %+v", got)
	}
	if got := w.comments[2]; len(got) != 1 || strings.Contains(got[0].Body, "rings:") {
		t.Errorf("the comment on a fork is %+v", got)
	}
}

// TestOneCommentIsEdited: it is written once, edited when the text changes, and found again by a new daemon, even if
// others copy its marker.
func TestOneCommentIsEdited(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Comment: true})
	w.comments[1] = []report.Comment{{ID: 1, Body: "<!-- plumbline:00000000000000000000000000000000:00 -->\nnot ours"}}
	w.pull(1, "a", "ann", false)
	w.after(25 * time.Minute)
	if len(w.plans) < 3 || w.writes != 1 || len(w.comments[1]) != 2 {
		t.Fatalf("%d plans, %d writes, %v", len(w.plans), w.writes, w.comments[1])
	}
	ours := w.comments[1][1]
	w.comments[1] = append(w.comments[1], report.Comment{ID: 9, Body: ours.Body})
	w.start()
	w.after(5 * time.Minute)
	if w.writes != 1 {
		t.Errorf("after a start: %d writes", w.writes)
	}
	w.start()
	w.makes = func(*review.Step) (*review.Preview, error) {
		return &review.Preview{Plan: &plan.Plan{Warnings: []string{"something"}}}, nil
	}
	w.after(5 * time.Minute)
	if got := w.comments[1]; w.writes != 2 || len(got) != 3 || !strings.Contains(got[1].Body, "something") || got[2].Body != ours.Body {
		t.Errorf("after another plan: %d writes, %v", w.writes, got)
	}
	w.comments[1] = nil // a person deletes it
	w.pull(1, "b", "ann", false)
	w.after(15 * time.Minute)
	if got := w.comments[1]; len(got) != 1 || !strings.Contains(got[0].Body, "`b`") {
		t.Errorf("after it was deleted: %v", got)
	}
}

// TestAnEditedCommentIsRestored with the next plan, even one whose marker is gone, by a daemon that has forgotten it as well; and
// what the host makes of a text is no edit.
func TestAnEditedCommentIsRestored(t *testing.T) {
	for name, keeps := range map[string]func(string) string{
		"as it is":              func(text string) string { return text },
		"other ends of lines":   func(text string) string { return strings.ReplaceAll(text, "\n", " \r\n") + "\r\n" },
		"without the last line": func(text string) string { return text[:strings.LastIndex(strings.TrimSpace(text), "\n")] },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.PullRequests{Comment: true})
			w.keeps = keeps
			w.pull(1, "a", "ann", false)
			w.after(45 * time.Minute)
			if len(w.plans) < 4 || w.writes != 1 {
				t.Fatalf("%d plans, %d writes", len(w.plans), w.writes)
			}
			ours := w.comments[1][0].Body
			for i, edited := range []string{strings.Replace(ours, "plan", "edited", 1), "no marker", ours + "\nedited"} {
				w.comments[1][0].Body = edited
				w.after(45 * time.Minute)
				if got := w.comments[1]; len(got) != 1 || got[0].Body != ours || w.writes != i+2 {
					t.Errorf("after edit %d: %d writes, %v", i, w.writes, got)
				}
			}
			w.comments[1][0].Body = "no marker"
			w.start()
			w.after(5 * time.Minute)
			if got := w.comments[1]; len(got) != 1 || got[0].Body != ours || w.writes != 5 {
				t.Errorf("after a start: %d writes, %v", w.writes, got)
			}
			w.after(2 * time.Hour)
			if w.writes != 5 {
				t.Errorf("%d writes", w.writes)
			}
		})
	}
}

// TestAHostThatRewritesLate, after it has answered, has a text restored every half an hour, and that is reported until the host
// keeps it.
func TestAHostThatRewritesLate(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Comment: true})
	w.keepsLate = strings.ToUpper
	w.pull(1, "a", "ann", false)
	w.after(24 * time.Hour)
	if w.writes < 40 || w.writes > 50 {
		t.Errorf("%d writes in a day", w.writes)
	}
	const again = "unlisted: the comment on pull request 1 was changed or deleted several times, by a user or by the host: " +
		"trust the commit status, not the comment"
	equal(t, "said", []string{"a success no change", again}, w.said())
	before := w.writes
	w.pull(1, "b", "ann", false)
	w.after(2 * time.Minute)
	if w.writes != before+1 {
		t.Errorf("%d writes of another text", w.writes-before)
	}
	w.after(time.Hour)
	equal(t, "said", []string{"b success no change", again}, w.said())
	w.keepsLate = w.keeps
	w.after(time.Hour)
	equal(t, "said once it is kept", []string{"b success no change"}, w.said())
}

// TestACommentThatIsNotListed, as there are too many others, is found by what is kept of it.
func TestACommentThatIsNotListed(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Comment: true})
	w.mostListed = 3
	w.comments[1] = []report.Comment{{ID: 1}, {ID: 2}, {ID: 3}}
	w.pull(1, "a", "ann", false)
	w.after(5 * time.Minute)
	w.start()
	w.refuses = &report.UnavailableError{Host: "git.example.com"}
	w.after(time.Minute)
	w.refuses = nil
	w.pull(1, "b", "ann", false)
	w.after(15 * time.Minute)
	if got := w.comments[1]; len(got) != 4 || !strings.Contains(got[3].Body, "`b`") {
		t.Errorf("%d comments: %v", len(got), got)
	}
}

// TestACommentOfAnother is not overwritten, if a host that was restored from a backup has given it the ID of ours.
func TestACommentOfAnother(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Comment: true})
	w.pull(1, "a", "ann", false)
	w.after(5 * time.Minute)
	if len(w.comments[1]) != 1 {
		t.Fatalf("comments: %v", w.comments[1])
	}
	const other = "<!-- plumbline:00000000000000000000000000000000: --> the plan of another NodeSync"
	w.comments[1][0].Body = other
	w.pull(1, "b", "ann", false)
	w.after(15 * time.Minute)
	if got := w.comments[1]; len(got) != 2 || got[0].Body != other || !strings.Contains(got[1].Body, "`b`") {
		t.Errorf("%d comments: %v", len(got), got)
	}
}

// TestAReopenedPullRequest has its comment of before, even if too many others precede it, and it is not searched.
func TestAReopenedPullRequest(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Comment: true})
	w.mostListed = 3
	w.comments[1] = []report.Comment{{ID: 1}, {ID: 2}, {ID: 3}}
	w.pull(1, "a", "ann", false)
	w.after(time.Minute)
	w.close(1)
	w.after(5 * time.Minute)
	before := w.searches
	w.pull(1, "b", "ann", false)
	w.after(2 * time.Minute)
	if got := w.comments[1]; len(got) != 4 || !strings.Contains(got[3].Body, "`b`") || w.searches != before {
		t.Errorf("%d comments, %d searches: %v", len(got), w.searches-before, got)
	}
}

// TestCommentsThatAreForgotten are the oldest on pull requests that are not open, above a limit.
func TestCommentsThatAreForgotten(t *testing.T) {
	r := &repository{ours: map[int]report.Comment{}}
	for number := range maxOurs + 3 {
		r.ours[number] = report.Comment{ID: int64(number) + 1, Thread: 2, Version: 3, Body: "a text"}
	}
	r.settle([]report.PullRequest{{Number: 1}}, time.Time{})
	for number, want := range map[int]report.Comment{
		0: {}, 1: {ID: 2, Thread: 2, Version: 3, Body: "a text"}, 2: {}, 3: {}, 4: {ID: 5, Thread: 2}, maxOurs + 2: {ID: maxOurs + 3, Thread: 2},
	} {
		if got := r.ours[number]; got != want {
			t.Errorf("comment on %d: %v, want %v", number, got, want)
		}
	}
	equal(t, "comments", maxOurs, len(r.ours))
}

// TestACommentWhereTagsAreShown is marked by the definition of a link, and found by that.
func TestACommentWhereTagsAreShown(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Comment: true})
	w.change(func(s *v1alpha1.NodeSync) { s.Spec.Report[0].Provider = "bitbucket" })
	w.pull(1, "a", "ann", false)
	w.after(time.Minute)
	if len(w.comments[1]) != 1 {
		t.Fatalf("comments %v", w.comments[1])
	}
	marker, rest, _ := strings.Cut(w.comments[1][0].Body, "\n")
	if strings.Contains(marker+rest, "<") || !strings.HasPrefix(marker, "[plumbline:") || !strings.HasSuffix(marker, "]: #") || !strings.HasPrefix(rest, "\n**plumbline plan**") {
		t.Errorf("comment %q", w.comments[1][0].Body)
	}
	w.start()
	w.after(time.Minute)
	w.pull(1, "b", "ann", false)
	w.after(2 * time.Minute)
	w.pull(1, "c", "ann", false)
	w.after(2 * time.Minute)
	if got := w.comments[1]; len(got) != 1 || w.writes != 3 || !strings.Contains(got[0].Body, "`c`") {
		t.Errorf("%d writes, comments %v", w.writes, got)
	}
}

// TestAnEditThatAnotherOneOvertook overwrites the current version of the comment.
func TestAnEditThatAnotherOneOvertook(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Comment: true})
	w.pull(1, "a", "ann", false)
	w.after(time.Minute)
	w.comments[1][0].Version++
	w.pull(1, "b", "ann", false)
	w.after(15 * time.Minute)
	if got := w.comments[1]; len(got) != 1 || !strings.Contains(got[0].Body, "`b`") {
		t.Errorf("comments %v, said %v", got, w.said())
	}
}

// TestACommentThatIsRefused is reported in the status, and written later; the commit status does not wait for it.
func TestACommentThatIsRefused(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Comment: true})
	w.uncommented = &report.UnauthorizedError{Host: "git.example.com"}
	w.pull(1, "a", "ann", false)
	w.after(time.Minute)
	equal(t, "said", []string{"a success no change", "unlisted: " + w.uncommented.Error()}, w.said())
	if n := len(w.plans); n > 4 {
		t.Errorf("%d plans in a minute", n)
	}
	w.uncommented = nil
	w.after(15 * time.Minute)
	equal(t, "said", []string{"a success no change"}, w.said())
	equal(t, "comments", 1, len(w.comments[1]))
}

// TestARefusedCommentIsRetriedLessOften, up to every ten minutes, and each time with a plan.
func TestARefusedCommentIsRetriedLessOften(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Comment: true})
	w.uncommented = &report.UnauthorizedError{Host: "git.example.com"}
	w.pull(1, "a", "ann", false)
	w.after(time.Hour)
	if w.attempts < 6 || w.attempts > 10 || len(w.plans) > 12 {
		t.Errorf("%d attempts, %d plans in an hour", w.attempts, len(w.plans))
	}
	w.uncommented = nil
	w.after(11 * time.Minute)
	equal(t, "comments", 1, len(w.comments[1]))
	before := len(w.plans)
	w.after(30 * time.Minute)
	if n := len(w.plans) - before; n > 3 {
		t.Errorf("%d plans in half an hour once it is written", n)
	}
}

// TestCommentsWaitForTheRateLimit of the host, on all pull requests, and their plans do not.
func TestCommentsWaitForTheRateLimit(t *testing.T) {
	w := newWorld(t, v1alpha1.PullRequests{Comment: true})
	w.uncommented = &report.RateLimitedError{Host: "git.example.com", RetryAfter: 45 * time.Minute}
	w.pull(1, "a", "ann", false)
	w.pull(2, "b", "ben", false)
	w.after(12 * time.Minute)
	w.change(func(s *v1alpha1.NodeSync) { s.Status.LastAppliedRevision = "main@sha1:1111" })
	before := len(w.plans)
	w.after(time.Minute)
	equal(t, "plans after another revision was applied", 2, len(w.plans)-before)
	w.pull(1, "c", "ann", false)
	w.after(30 * time.Minute)
	if w.attempts != 1 || len(w.plans) > 16 || !slices.Contains(w.said(), "c success no change") {
		t.Errorf("%d attempts, %d plans, said %v", w.attempts, len(w.plans), w.said())
	}
	w.uncommented = nil
	w.after(13 * time.Minute)
	if len(w.comments[1]) != 1 || len(w.comments[2]) != 1 || w.attempts != 3 {
		t.Errorf("after the limit: %d attempts, comments %v", w.attempts, w.comments)
	}
}
