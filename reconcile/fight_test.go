package reconcile

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAFightIsToldUntilItEnds shows that a conflict blocks nothing and costs no query while nothing changes, and is
// checked again if a client changes something, if Git ignores the difference, and if a person requests a reconcile.
func TestAFightIsToldUntilItEnds(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), installtest.Installed()...)
	fights := release.Result{Step: release.Keep, Paused: []survey.Drift{{Object: "ClusterRole karpenter", Fields: []string{"rules"}, Editor: "argocd", Operation: "Apply"}}}
	asked := 0
	looks := func(what string, want bool, told bool, change func(*pass)) {
		t.Helper()
		p := b.installing()
		change(p)
		if err := p.installCharts(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !p.stages.CRDs.Ready {
			t.Errorf("%s: definitions are held up", what)
		}
		if looked := b.install.Asked[charts.ControllerChart] > asked; looked != want {
			t.Errorf("%s: looked %t, want %t", what, looked, want)
		}
		asked = b.install.Asked[charts.ControllerChart]
		v := p.verdict()
		if is := v.Class == status.Stuck && v.Reason == v1alpha1.ReasonConflict; is != told {
			t.Errorf("%s: verdict %+v", what, v)
		}
		const words = "ClusterRole karpenter: rules was edited by argocd (Apply): it was reverted 3 times within an hour; correction is paused: " +
			"stop what changes it, or name the fields under ignoreDifferences in plumbline.yaml; plumbline reconcile prod corrects it again"
		if told && v.Message != words {
			t.Errorf("%s: it says %s", what, v.Message)
		}
	}
	nothing := func(*pass) {}
	b.install.Controller = &fights
	looks("at first", true, true, nothing)
	looks("nothing moved", false, true, nothing)
	deployment := installtest.Installed()[0]
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
		t.Fatal(err)
	}
	deployment.SetGeneration(7)
	if err := b.client.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	looks("something moved", false, true, nothing)
	b.clock.forward(b.pass().sync.GetRetryInterval())
	looks("and a retry is due", true, true, nothing)
	looks("a person asks", true, true, func(p *pass) {
		p.sync.Status.LastHandledReconcileAt = "now"
		if !p.chartStep().Requested {
			t.Error("what is fought for is not put right when a person asks")
		}
	})
	b.clock.forward(b.pass().sync.GetRetryInterval())
	b.install.Controller = nil
	ignores := func(p *pass) {
		p.want.Karpenter.IgnoreDifferences = []render.IgnoreDifference{{Kind: "ClusterRole", JSONPointers: []string{"/rules"}}}
	}
	looks("Git says that it does not matter", true, false, ignores)
	looks("nothing moved since", false, false, ignores)
	if got := b.install.Into.Ignored; len(got) != 1 || got[0].Kind != "ClusterRole" || got[0].JSONPointers[0] != "/rules" {
		t.Errorf("the charts are told to ignore %+v", got)
	}
}
