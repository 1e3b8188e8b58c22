package reconcile

import (
	"slices"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

// TestAReleaseUninstalledByHand is reinstalled when a person requests a reconcile, and otherwise after an interval,
// even if all of its objects still exist.
func TestAReleaseUninstalledByHand(t *testing.T) {
	byHelm := release.Release{Name: charts.CRDChart, Status: release.Deployed, Revision: 2, Edited: true}
	cases := map[string]struct {
		state release.State
		asked bool // by a person
		wait  bool // an interval
		looks bool
	}{
		"nothing happened":                   {state: installtest.Deployed, asked: true, wait: true},
		"the CRD chart, within the interval": {state: release.State{CRDs: release.Release{Status: release.Absent}, Controller: installtest.Deployed.Controller}},
		"the CRD chart, a person asks":       {state: release.State{CRDs: release.Release{Status: release.Absent}, Controller: installtest.Deployed.Controller}, asked: true, looks: true},
		"the CRD chart, after an interval":   {state: release.State{CRDs: release.Release{Status: release.Absent}, Controller: installtest.Deployed.Controller}, wait: true, looks: true},
		"the main chart, a person asks":      {state: release.State{CRDs: installtest.Deployed.CRDs, Controller: release.Release{Status: release.Absent}}, asked: true, looks: true},
		"helm upgrade by hand":               {state: release.State{CRDs: byHelm, Controller: installtest.Deployed.Controller}, wait: true, looks: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged), installtest.Installed()...)
			b.install.Result = release.Result{Step: release.Keep, Revision: 1, Version: "1.14.1"}
			if err := b.installing().installCharts(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.install.Known = c.state
			b.install.Result = release.Result{Step: release.Install, Changed: true, Revision: 1, Version: "1.14.1"}
			if c.wait {
				b.clock.forward(b.read().Spec.Interval.Duration)
			}
			p := b.installing()
			p.sync.Status.Karpenter.CRDs = &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.14.1"}
			p.sync.Status.Karpenter.Controller = &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.14.1"}
			if c.asked {
				p.sync.Status.LastHandledReconcileAt = "now"
			}
			if err := p.installCharts(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, want := b.install.Asked, 1; (got[charts.CRDChart] > want) != c.looks || (got[charts.ControllerChart] > want) != c.looks {
				t.Errorf("Helm was asked for %v, want a second look: %t", got, c.looks)
			}
			told := slices.ContainsFunc(p.Notes, func(n finding.Note) bool {
				return n.Reason == "ChartRepaired" && strings.Contains(n.Message, "Helm release karpenter-crd was uninstalled by hand: chart karpenter-crd 1.14.1 is reinstalled (revision 1)")
			})
			if told != c.looks {
				t.Errorf("it says %+v", p.Notes)
			}
		})
	}
}

// TestCRDsNeverGoBackWithoutTheirRelease shows that CRDs are not downgraded if the controller was rolled back under
// newer CRDs, and the CRDs' release was uninstalled.
func TestCRDsNeverGoBackWithoutTheirRelease(t *testing.T) {
	const newer = "1.15.0"
	for name, c := range map[string]struct {
		crds   string
		status release.Status
		asked  int
	}{
		"newer, and gone":      {newer, release.Absent, 0},
		"newer, and there":     {newer, release.Deployed, 1},
		"as in Git, and gone":  {"1.14.1", release.Absent, 1},
		"older, and gone":      {"1.8.6", release.Absent, 1},
		"newer, and not whole": {newer, release.Failed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged), installtest.Installed()...)
			b.install.Known = release.State{CRDs: release.Release{Name: charts.CRDChart, Status: c.status}, Controller: installtest.Deployed.Controller}
			b.install.Result = release.Result{Step: release.Keep, Revision: 1, Version: "1.14.1"}
			p := b.installing()
			p.sync.Status.Karpenter.CRDs = &v1alpha1.ReleaseStatus{Revision: 2, Version: c.crds}
			if err := p.installCharts(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := b.install.Asked[charts.CRDChart]; got != c.asked {
				t.Errorf("Helm was asked %d times for the CRD chart, want %d", got, c.asked)
			}
			said := slices.ContainsFunc(p.Notes, func(n finding.Note) bool {
				return n.Reason == "ReleaseLost" && strings.Contains(n.Message, "its CRDs have version 1.15.0, and chart karpenter-crd 1.14.1 is not installed over them")
			})
			if kept := c.asked == 0; said != kept || kept && p.sync.Status.Karpenter.CRDs.Version != newer {
				t.Errorf("says %+v; the status has %+v", p.Notes, p.sync.Status.Karpenter.CRDs)
			}
		})
	}
}
