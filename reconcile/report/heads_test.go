package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func head(commit string, state State, words string) Head {
	return Head{Commit: commit, Word: Word{State: state, Description: words}, Page: "https://page/" + commit}
}

func (w *world) sayHeads(t *testing.T, unlisted string, heads ...Head) bool {
	t.Helper()
	changed, err := w.queue.RecordHeads(t.Context(), w.sync, Heads{
		Context: "plumbline/prod/x", Of: []HostHeads{{Host: onGitea.Host, Heads: heads, Unlisted: unlisted}}, At: w.now,
	})
	must(t, err)
	return changed
}

// TestEachHeadHasItsWord: it is posted once, again if it changes, and dropped when the pull request is closed; the
// statuses on the whole are in another ledger.
func TestEachHeadHasItsWord(t *testing.T) {
	w := newWorld(t)
	w.sayHeads(t, "", head("b", Success, "no change"), head("a", Failure, "held"))
	w.deliver()
	w.sayHeads(t, "", head("b", Success, "no change"), head("a", Failure, "held"))
	w.deliver()
	want := []string{"b success no change", "a failure held"}
	if diff := cmp.Diff(want, w.said(0)); diff != "" {
		t.Fatalf("posted (-want +got):\n%s", diff)
	}
	if s := w.posted[0]; s.Context != "plumbline/prod/x/plan" || s.TargetURL != "https://page/b" {
		t.Errorf("context %s, page %s", s.Context, s.TargetURL)
	}
	w.now = w.now.Add(time.Minute)
	w.sayHeads(t, "", head("a", Success, "no change"))
	w.sayHeads(t, "") // closed before it was posted
	w.deliver()
	if len(w.posted) != 2 {
		t.Errorf("posted of closed pull requests: %v", w.said(2))
	}
}

// TestWordsOfHeadsLastOverARestart: waiting statuses are posted, and earlier ones are known.
func TestWordsOfHeadsLastOverARestart(t *testing.T) {
	w := newWorld(t)
	w.sayHeads(t, "", head("a", Failure, "held"))
	w.start()
	w.deliver()
	if diff := cmp.Diff([]string{"a failure held"}, w.said(0)); diff != "" {
		t.Errorf("posted (-want +got):\n%s", diff)
	}
	w.start()
	known, _, err := w.queue.Heads(t.Context(), w.sync, onGitea.Host)
	must(t, err)
	if len(known) != 1 || known[0].ID != "a" || known[0].Description != "held" {
		t.Errorf("known: %v", known)
	}
	w.sayHeads(t, "", head("a", Failure, "held"))
	w.deliver()
	if len(w.posted) != 1 {
		t.Errorf("posted again: %v", w.said(1))
	}
}

// TestCommentsLastOverARestart: what they are found by is kept, and their text is not.
func TestCommentsLastOverARestart(t *testing.T) {
	w := newWorld(t)
	written := map[int]Comment{7: {ID: 31, Thread: 141, Version: 4, Body: "text"}}
	_, err := w.queue.RecordHeads(t.Context(), w.sync, Heads{
		Context: "plumbline/prod/x", Of: []HostHeads{{Host: onGitea.Host, Comments: written}}, At: w.now,
	})
	must(t, err)
	w.start()
	_, known, err := w.queue.Heads(t.Context(), w.sync, onGitea.Host)
	must(t, err)
	if len(known) != 1 || known[7] != (Comment{ID: 31, Thread: 141}) {
		t.Errorf("known: %v", known)
	}
}

// TestTheStatusShowsTheNewestPullRequest, and why the open ones are not known.
func TestTheStatusShowsTheNewestPullRequest(t *testing.T) {
	w := newWorld(t)
	if !w.sayHeads(t, "", head("b", Success, "no change"), head("a", Failure, "held")) {
		t.Error("that the first was said is no change of the status")
	}
	list, _ := w.queue.Reported(w.sync)
	if len(list) != 1 || list[0].Commit != "b" || list[0].Context != "plumbline/prod/x/plan" || list[0].Failure != "" {
		t.Errorf("reported: %v", list)
	}
	if !w.sayHeads(t, "the host refuses the token") || w.sayHeads(t, "the host refuses the token") {
		t.Error("trouble is a change of the status once")
	}
	if list, _ = w.queue.Reported(w.sync); len(list) != 1 || list[0].Failure != "the host refuses the token" {
		t.Errorf("reported: %v", list)
	}
}

// TestWhoStopsFollowingLeavesNoLedger shows that the ledger is deleted when pull requests are no longer followed.
func TestWhoStopsFollowingLeavesNoLedger(t *testing.T) {
	w := newWorld(t)
	w.sayHeads(t, "", head("a", Failure, "held"))
	_, err := w.queue.RecordHeads(t.Context(), w.sync, Heads{Context: "plumbline/prod/x", At: w.now})
	must(t, err)
	s := store{reader: w.client, writer: w.client, owner: ownerOf(w.sync, SubjectPlan)}
	if _, found, err := s.load(t.Context()); found || err != nil {
		t.Errorf("found %v, error %v", found, err)
	}
}

// TestADeletedNodeSyncHoldsNoPullRequestUp: failed pull requests get a success.
func TestADeletedNodeSyncHoldsNoPullRequestUp(t *testing.T) {
	w := newWorld(t)
	w.sayHeads(t, "", head("b", Success, "no change"), head("a", Failure, "held"))
	w.deliver()
	w.now = w.now.Add(time.Minute)
	last := FinalStatus{Description: "orphaned", Page: func(Host, string) string { return "" }, At: w.now}
	done, err := w.queue.PostFinalStatus(t.Context(), w.sync, last)
	must(t, err)
	w.deliver()
	if diff := cmp.Diff([]string{"a success " + noPlans.Description}, w.said(2)); done || diff != "" {
		t.Errorf("done %v, posted (-want +got):\n%s", done, diff)
	}
	if done, err = w.queue.PostFinalStatus(t.Context(), w.sync, last); !done || err != nil {
		t.Errorf("in the end: done %v, error %v", done, err)
	}
}

// TestALedgerOfManyHeadsFits: 50 for each host, with the longest descriptions, are well below the limit of a ConfigMap.
func TestALedgerOfManyHeadsFits(t *testing.T) {
	var heads []Head
	for i := range 50 {
		heads = append(heads, Head{
			Commit: fmt.Sprintf("%040d", i), Word: Word{State: Failure, Description: fmt.Sprintf("%0140d", i)}, Page: fmt.Sprintf("%0255d", i),
		})
	}
	comments := map[int]Comment{}
	for i := range 100 {
		comments[100_000+i] = Comment{ID: 4_000_000_000 + int64(i), Thread: 4_000_000_000, Body: strings.Repeat("x", 60_000)}
	}
	l := Ledger{}
	l.recordHeads(Heads{Context: "plumbline/prod/x", Of: []HostHeads{{Host: onGitea.Host, Heads: heads, Comments: comments}}, At: noon})
	if n := len(encoded(t, l)); n > 100_000 {
		t.Errorf("the ledger takes %d bytes", n)
	}
}
