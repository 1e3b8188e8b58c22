package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// TestWhatStepsFindMeans: each is what it was, wrapped or not.
func TestWhatStepsFindMeans(t *testing.T) {
	found := errors.New("secret a does not exist")
	for _, c := range []struct {
		got    *fault.Error
		class  fault.Class
		reason string
	}{
		{fault.SourceFailed(found), fault.Terminal, "SourceFailed"},
		{fault.Unverifiable(found), fault.Terminal, "VerificationError"},
		{fault.ChartFailed(found), fault.Terminal, "ChartFailed"},
		{fault.Refused(found), fault.Terminal, "Refused"},
		{fault.Conflict(found), fault.Terminal, "Conflict"},
		{fault.Held(found), fault.Terminal, "Held"},
		{fault.Stalled(found), fault.Terminal, "Stalled"},
		{fault.UpgradeFailed(found), fault.Terminal, "UpgradeFailed"},
		{fault.StatusNotWritten(found), fault.Transient, "StatusNotWritten"},
		{fault.OlderRevision(found), fault.Transient, "OlderRevision"},
		{fault.Waits(found), fault.Waiting, "Waiting"},
		{fault.CloudUnverified(found), fault.Waiting, "CloudUnverified"},
		{fault.NamespaceTerminating(found), fault.Waiting, "NamespaceTerminating"},
		{fault.ReadAgain(found), fault.Superseded, "Waiting"},
	} {
		for _, err := range []error{c.got, fmt.Errorf("x: %w", c.got)} {
			f := fault.Classify(err)
			if f.Class != c.class || f.Reason != c.reason || !errors.Is(f, found) {
				t.Errorf("%s %s: %v, want %s %s", f.Class, f.Reason, f, c.class, c.reason)
			}
		}
	}
}

// TestMapKeepsTheClass: what is hidden of an error changes its words only.
func TestMapKeepsTheClass(t *testing.T) {
	f := fault.Held(fmt.Errorf("secret-value: %w", errors.New("why")))
	got := f.Map(func(string) string { return "***" })
	if got.Class != f.Class || got.Reason != f.Reason || got.Error() != "***" || got.Brief() != (fault.Brief{What: "***", Cause: "***", Then: "***", Where: "***"}) {
		t.Errorf("%+v", got)
	}
}
