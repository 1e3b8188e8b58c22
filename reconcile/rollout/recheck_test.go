package rollout

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// TestAnOpenPullRequestIsLookedAt every minute: others may push to its branch, merge it or close it. Nothing is pushed
// again, and a failed query changes nothing.
func TestAnOpenPullRequestIsLookedAt(t *testing.T) {
	w := newWorld()
	e, found := w.settle(t, braked("general", 3))
	if e.Proposal.Commit != "c0ffee" || !found.WakeAt.Equal(w.now.Add(recheck)) {
		t.Fatalf("proposal %+v, next %s", e.Proposal, found.WakeAt)
	}
	changed := "RevertNotProposed: NodePool/general: the branch of " + page + " has a commit other than the revert that plumbline created: review it before you merge it"
	for i, step := range []struct {
		there   *report.Proposed
		finding error
		want    v1alpha1.RevertProposal
		events  string
	}{
		{there: &report.Proposed{URL: page, State: report.ProposedOpen, Head: "c0ffee"}},
		{there: &report.Proposed{URL: page, State: report.ProposedOpen, Head: "bad"}, want: v1alpha1.RevertProposal{Changed: true}, events: changed},
		{finding: errors.New("503"), want: v1alpha1.RevertProposal{Changed: true}},
		{there: &report.Proposed{URL: page, State: report.ProposedOpen, Head: "c0ffee"}, events: "RevertProposed: NodePool/general: " + page + " reverts the failed change: merge it, or correct the definition"},
		{there: &report.Proposed{URL: page, State: report.ProposedMerged, Head: "c0ffee"}, want: v1alpha1.RevertProposal{Merged: true}, events: "RevertProposed: NodePool/general: " + page + ", which reverts the failed change, was merged"},
	} {
		if step.there != nil {
			w.there = step.there
		}
		w.finding = step.finding
		w.now = w.now.Add(recheck)
		var found finding.Findings
		e, found = w.settle(t, e)
		want := step.want
		if want.URL, want.Branch = page, e.Proposal.Branch; !want.Merged {
			want.Commit = "c0ffee"
		}
		if *e.Proposal != want || events(found) != step.events {
			t.Errorf("step %d: %+v, events %q", i, e.Proposal, events(found))
		}
	}
	if w.said() != "find push open"+strings.Repeat(" find", 5) {
		t.Errorf("calls %s", w.said())
	}
	w.now = w.now.Add(recheck)
	if e, found = w.settle(t, e); !e.Proposal.Merged || strings.Count(w.said(), "find") != 6 || !found.WakeAt.IsZero() {
		t.Errorf("once merged: %+v, calls %s, next %s", e.Proposal, w.said(), found.WakeAt)
	}
}
