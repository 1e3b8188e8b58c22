package reconcile

import (
	"slices"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/install/installtest"
)

// TestAReleaseUninstalledByHand is installed again when a person asks for a pass, and
// without one after an interval, though every object of it may be there still.
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
				return n.Reason == "ChartRepaired" && strings.Contains(n.Message, "helm release karpenter-crd was uninstalled by hand: chart karpenter-crd 1.14.1 is installed again (revision 1)")
			})
			if told != c.looks {
				t.Errorf("it says %+v", p.Notes)
			}
		})
	}
}
