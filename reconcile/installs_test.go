package reconcile

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/settings"
	"github.com/plumbline-dev/plumbline/reconcile/step"
)

// TestACommandInstallsTheCharts and does nothing else, where it stands in for the daemon to bring Karpenter back: whether the NodeSync
// is suspended, being deleted, or drained.
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
			b.Settings.Concludes, b.Settings.Installs = before.UID, func() bool { return installs }
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

// TestStepsOfAnInstallation are those up to the charts, and one that has the revision not count as applied.
func TestStepsOfAnInstallation(t *testing.T) {
	all := (&pass{}).attempt()
	var waits []string
	wait := func(on, _ string) { waits = append(waits, on) }
	some := settings.Daemon{Installs: func() bool { return true }}.Steps(all, wait)
	if n := len(some); n < 2 || some[n-2].Name != step.InstallCharts || some[n-1].Take(t.Context()) != nil || len(waits) != 1 {
		t.Errorf("the last of %d steps: %v, waits for %v", n, some[n-1].Name, waits)
	}
	for _, d := range []settings.Daemon{{}, {Installs: func() bool { return false }}} {
		if got := d.Steps(all, wait); len(got) != len(all) {
			t.Errorf("%d steps of %d", len(got), len(all))
		}
	}
}
