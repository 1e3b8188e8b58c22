package reconcile

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// installing returns a reconcile that has evaluated the commit and has not changed the charts yet.
func (b *bed) installing() *pass {
	p := b.pass()
	p.live.Served = true
	p.want.Karpenter = &render.Karpenter{Management: render.Managed, Version: "1.14.1", Namespace: "kube-system"}
	p.snapshot = &render.Snapshot{FS: fstest.MapFS{}}
	p.want.Files = render.NewFiles(*p.snapshot)
	p.want.Charts = &charts.Charts{Version: "1.14.1", CRDDigest: "sha256:c", Digest: "sha256:d"}
	identity, err := p.chartStep().Identity()
	if err != nil {
		b.t.Fatal(err)
	}
	p.sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Namespace: "kube-system", Version: "1.14.1", Identity: identity}
	return p
}

// TestChartsAreLookedAtWhereSomethingMoved shows that Helm is queried again once the CRDs or the Deployment have
// changed, and no more often than retries if they keep changing.
func TestChartsAreLookedAtWhereSomethingMoved(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), installtest.Installed()...)
	asks := func(what string, want int) {
		t.Helper()
		p := b.installing()
		if err := p.installCharts(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.install.Asked[charts.ControllerChart]; got != want {
			t.Errorf("%s: Helm was asked %d times, want %d", what, got, want)
		}
	}
	change := func(object client.Object) {
		t.Helper()
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		object.SetGeneration(object.GetGeneration() + 1)
		if err := b.client.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	deployment := installtest.Installed()[0]
	asks("at first", 1)
	asks("nothing moved", 1)
	change(deployment)
	asks("a Deployment was changed", 2)
	asks("and looked at", 2)
	b.install.Result = release.Result{Step: release.Repair, Changed: true, Drifted: []survey.Drift{{Object: "Deployment kube-system/karpenter", Deleted: true}}}
	change(installtest.Installed()[1])
	asks("a CRD was changed", 3)
	if told := strings.Join(b.told(), "\n"); told != "" {
		t.Errorf("events before the conclusion: %s", told)
	}
	change(deployment)
	asks("somebody fights", 3)
	b.clock.forward(b.pass().sync.GetRetryInterval())
	asks("and again when a retry is due", 4)
	if err := b.client.Delete(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	b.clock.forward(b.pass().sync.GetRetryInterval())
	asks("the Deployment is gone", 5)
}

// TestInstalledChartsGoOnWithoutTheRegistry shows that an unavailable registry blocks only the charts if the version in
// Git is installed.
func TestInstalledChartsGoOnWithoutTheRegistry(t *testing.T) {
	of := func(version string) release.Release {
		return release.Release{Status: release.Deployed, Mark: release.Mark{Version: version}}
	}
	edited := of("1.14.1")
	edited.Edited = true
	newer := of("1.15.0")
	newer.Name = charts.CRDChart
	theirs := newer
	theirs.Edited = true
	cases := map[string]struct {
		state release.State
		first bool
		// goesOn reports whether the reconcile reaches the live CRDs.
		goesOn bool
	}{
		"the version is installed":       {state: release.State{CRDs: of("1.14.1"), Controller: of("1.14.1")}, goesOn: true},
		"with newer CRDs":                {state: release.State{CRDs: newer, Controller: of("1.14.1")}, goesOn: true},
		"with newer CRDs of somebody's":  {state: release.State{CRDs: theirs, Controller: of("1.14.1")}},
		"another one is":                 {state: release.State{CRDs: of("1.14.0"), Controller: of("1.14.0")}},
		"the controller is another":      {state: release.State{CRDs: of("1.14.1"), Controller: of("1.14.0")}},
		"somebody ran Helm over it":      {state: release.State{CRDs: edited, Controller: of("1.14.1")}},
		"none is":                        {state: release.State{CRDs: release.Release{Status: release.Absent}}},
		"nothing was ever installed yet": {state: release.State{CRDs: of("1.14.1"), Controller: of("1.14.1")}, first: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged), installtest.Installed()...)
			b.install.Known = c.state
			p := b.installing()
			p.want.Charts = nil
			if c.first {
				p.sync.Status.Karpenter = nil
			}
			err := p.resolveCharts(t.Context())
			if goesOn := p.want.Unpulled != nil; goesOn != c.goesOn {
				t.Fatalf("goes on = %t, want %t (%v)", goesOn, c.goesOn, err)
			}
			if !c.goesOn {
				if err == nil || !strings.Contains(err.Error(), "no route") {
					t.Errorf("resolveCharts() = %v, want the registry's error", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := p.installCharts(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]int{}, b.install.Asked); diff != "" {
				t.Errorf("Helm was asked without charts:\n%s", diff)
			}
			v := p.verdict()
			if v.Class != status.Retrying || v.Reason != v1alpha1.ReasonChartFailed || !strings.Contains(v.Message, "no route; the charts stay as they are installed") {
				t.Errorf("verdict: %+v", v)
			}
		})
	}
}

// TestARegistryThatFailsIsLeftAloneForAWhile shows that a failing registry is not queried again for a while: that can
// take as long as a reconcile may.
func TestARegistryThatFailsIsLeftAloneForAWhile(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	asks := func(what, version string, want int) {
		t.Helper()
		p := b.installing()
		p.want.Karpenter.Version = version
		if _, err := p.desiredStep().Pull(t.Context()); err == nil {
			t.Errorf("%s: no error", what)
		}
		if got := len(b.charts.asked); got != want {
			t.Errorf("%s: the registry was asked %d times, want %d", what, got, want)
		}
	}
	asks("at first", "1.14.1", 1)
	asks("at once again", "1.14.1", 1)
	asks("for another version", "1.14.0", 2)
	b.clock.forward(b.pass().sync.GetRetryInterval())
	asks("when a retry is due", "1.14.0", 3)
	sync := b.read()
	sync.Generation++
	b.source.files = files(karpenterYAML)
	if _, asked, err := b.fetched(sync); !asked || err != nil {
		t.Fatalf("asked %t, %v", asked, err)
	}
	asks("for a NodeSync that was changed", "1.14.0", 4)
}

// TestACRDThatIsGoneWithoutTheRegistry shows that a missing CRD is reported with the reason why plumbline cannot
// install it.
func TestACRDThatIsGoneWithoutTheRegistry(t *testing.T) {
	one := release.Release{Status: release.Deployed, Mark: release.Mark{Version: "1.14.1"}}
	b := newBed(t, nodeSync(unchanged))
	b.install.Known = release.State{CRDs: one, Controller: one}
	p := b.installing()
	p.want.Charts = nil
	stopped := p.resolveCharts(t.Context())
	f := fault.Classify(stopped)
	if f == nil || f.Class != fault.Waiting || strings.Contains(f.Error(), "External") || !strings.Contains(f.Error(), "no route") {
		t.Errorf("it says %v", stopped)
	}
}
