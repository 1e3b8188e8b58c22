package reconcile

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestACommandInstallsTheCharts shows that a command that replaces the daemon to restore Karpenter does nothing else,
// whether the NodeSync is suspended, being deleted, or drained.
func TestACommandInstallsTheCharts(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.NodeSync){
		"deleted":   func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain },
		"suspended": func(n *v1alpha1.NodeSync) { n.DeletionTimestamp, n.Spec.Suspend = nil, true },
		"drained":   func(n *v1alpha1.NodeSync) { n.DeletionTimestamp, n.Spec.Drain = nil, true },
		"neither":   func(n *v1alpha1.NodeSync) { n.DeletionTimestamp = nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := leaving(t, change)
			before, installs := b.read(), true
			b.Settings.OnlyNodeSync, b.Settings.Installs = before.UID, func() bool { return installs }
			for range 3 {
				b.reconcile()
			}
			if len(b.source.requests) == 0 {
				t.Error("Git was not asked what to install")
			}
			if b.cpuLimit() != "100" || b.liveClaim().DeletionTimestamp != nil || len(b.read().Status.Removals) > 0 {
				t.Errorf("it ends nodes: %+v", b.read().Status)
			}
		})
	}
}
