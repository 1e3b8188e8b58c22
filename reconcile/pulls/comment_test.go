package pulls

import (
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/review"
)

// TestOneCommentIsEdited: written once, edited where the text changes, found again by a daemon that
// has forgotten it, whoever else copies its marker.
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

// TestAnEditThatAnotherOneOvertook is written over what stands there then.
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

// TestACommentThatIsRefused is said in the status, and written later; the status of the commit
// does not wait for it.
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
