package conclude

import (
	"context"
	"errors"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// askedHistory counts how often a Git host is asked.
type askedHistory struct{ asked int }

func (*askedHistory) Known(context.Context, string) ([]string, bool) { return nil, false }

func (h *askedHistory) Ask(context.Context, string) ([]string, error) {
	h.asked++
	return nil, errors.New("no answer")
}

// TestNoHostIsAskedForAPassThatReportsNothing, such as one of which the status was older than it knew.
func TestNoHostIsAskedForAPassThatReportsNothing(t *testing.T) {
	h := &askedHistory{}
	sync := &v1alpha1.NodeSync{Spec: v1alpha1.NodeSyncSpec{Report: []v1alpha1.Report{{Provider: "gitea"}}}}
	s := &Step{Sync: sync, Before: sync.DeepCopy(), Memory: &Memory{}, Tools: Tools{History: h}}
	s.Commit, s.Fault = "1", &fault.Error{Class: fault.Superseded, Reason: "Conflict", Err: errors.New("it has been modified")}
	s.reportHistory(t.Context())
	if h.asked != 0 || len(s.Notes) != 0 || !s.WakeAt.IsZero() {
		t.Errorf("asked %d times, events %v, again at %s", h.asked, s.Notes, s.WakeAt)
	}
}
