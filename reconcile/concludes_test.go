package reconcile

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestACommandConcludesOneNodeSync shows that a command that replaces the daemon reconciles no other NodeSync, and none
// that is not deleted and keeps its nodes.
func TestACommandConcludesOneNodeSync(t *testing.T) {
	deleted := func(t *testing.T) *bed {
		t.Helper()
		return leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
	}
	notDeleted := func(t *testing.T) *bed {
		t.Helper()
		return newBed(t, nodeSync(func(*v1alpha1.NodeSync) {}))
	}
	drains := func(t *testing.T) *bed {
		t.Helper()
		return drainedOnly(t, unchanged)
	}
	for name, c := range map[string]struct {
		bed       func(*testing.T) *bed
		concludes func(own types.UID) types.UID
		writes    bool
	}{
		"the daemon":                {deleted, func(types.UID) types.UID { return "" }, true},
		"this one":                  {deleted, func(own types.UID) types.UID { return own }, true},
		"another one":               {deleted, func(types.UID) types.UID { return "another" }, false},
		"this one, for its nodes":   {drains, func(own types.UID) types.UID { return own }, true},
		"this one, and not deleted": {notDeleted, func(own types.UID) types.UID { return own }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := c.bed(t)
			before := b.read()
			b.Settings.OnlyNodeSync = c.concludes(before.UID)
			b.reconcile()
			if wrote := b.read().ResourceVersion != before.ResourceVersion; wrote != c.writes {
				t.Errorf("the pass has written the NodeSync: %v, want %v", wrote, c.writes)
			}
		})
	}
}
