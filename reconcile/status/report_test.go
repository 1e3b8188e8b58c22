package status

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// askedHistory counts the queries to a Git host. Each reads a credential.
type askedHistory struct {
	asked int
	hide  func(secret string)
}

func (*askedHistory) Known(context.Context, string) ([]string, bool) { return nil, false }

func (h *askedHistory) Ask(context.Context, string) ([]string, error) {
	h.asked++
	if h.hide != nil {
		h.hide(secret)
	}
	return nil, errors.New("no answer to " + secret)
}

// TestNoHostIsAskedForAPassThatReportsNothing, for example because its status was outdated.
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

// TestACredentialReadForTheHistoryIsHidden shows this for one that is read after everything else was redacted.
func TestACredentialReadForTheHistoryIsHidden(t *testing.T) {
	m := &Memory{}
	s := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{}, Memory: m, Tools: Tools{History: &askedHistory{hide: m.HideCredential}}}
	s.Redact()
	s.requestHistory(t.Context())
	if got := m.Hide(s.Notes[0].Message); strings.Contains(got, secret) {
		t.Errorf("an event says %s", got)
	}
}

// TestACredentialCountsOnce shows that one that is read twice in a reconcile does not replace the previous one, which
// stays hidden.
func TestACredentialCountsOnce(t *testing.T) {
	s := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{}, Memory: &Memory{}}
	for _, read := range [][]string{{"first-one"}, {"second-one"}, {"second-one", "second-one"}} {
		s.Memory.read = nil
		for _, secret := range read {
			s.Memory.HideCredential(secret)
		}
		s.Redact()
	}
	if got := s.Memory.Hide("first-one second-one"); got != "*** ***" {
		t.Errorf("after a change: %q", got)
	}
}
