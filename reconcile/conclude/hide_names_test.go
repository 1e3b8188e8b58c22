package conclude

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
)

// TestNamesAreNotRedacted: a Secret may hold the very word that names a pool or a reason, by
// which other findings are known.
func TestNamesAreNotRedacted(t *testing.T) {
	s := &Step{Sync: &v1alpha1.NodeSync{}, Memory: &Memory{}}
	s.Launchless = []nodes.Launchless{{Pool: secret, Why: secret}}
	s.Notes = []finding.Note{{Type: secret, Reason: secret, Message: secret}}
	s.Memory.HideValues([]string{secret})
	s.Redact()
	if diff := cmp.Diff([]nodes.Launchless{{Pool: secret, Why: "***"}}, s.Launchless); diff != "" {
		t.Errorf("pools without nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]finding.Note{{Type: secret, Reason: secret, Message: "***"}}, s.Notes); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
