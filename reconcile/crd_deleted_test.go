package reconcile

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// TestNodesThatGoWithACRDAreNamed shows that an event names nodes that are deleted with a CRD, once.
func TestNodesThatGoWithACRDAreNamed(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}}}
	claim.Status.NodeName = "ip-10-0-0-1"
	pending := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "batch-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "batch"}}}
	b := newBed(t, nodeSync(unchanged), append(installtest.Installed(), claim, pending)...)
	tells := func(what string, want ...string) {
		t.Helper()
		p := b.installing()
		if err := p.charted(t.Context(), (*upgrade.Step).Serve); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range p.Notes {
			got = append(got, n.Reason+": "+n.Message)
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: it tells %q, want %q", what, got, want)
		}
	}
	tells("all stands")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Name: "nodepools.karpenter.sh"}, crd); err != nil {
		t.Fatal(err)
	}
	crd.Finalizers = []string{"customresourcecleanup.apiextensions.k8s.io"}
	if err := b.client.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	tells("it is being deleted", "NodesLost: crd nodepools.karpenter.sh was deleted, which terminates the nodes of "+
		"NodePool/batch: batch-1, NodePool/general: general-1 (ip-10-0-0-1): plumbline recreates the CRD and the definitions in Git once it is gone")
	tells("and was told")
}

// TestWithoutACRDNothingIsKnown shows that for a Ready NodeSync a missing CRD is reported before the charts are
// repaired. What was not read counts neither as deleted nor as a matching node.
func TestWithoutACRDNothingIsKnown(t *testing.T) {
	gone := &apiextensionsv1.CustomResourceDefinition{}
	gone.Name = "nodepools.karpenter.sh"
	installed := slices.DeleteFunc(installtest.Installed(), func(o client.Object) bool { return o.GetName() == gone.Name })
	b := newBed(t, nodeSync(unchanged), installed...)
	rollout := &v1alpha1.Rollout{Nodes: 2, Outdated: 1}

	p := b.pass()
	conditions.MarkTrue(p.before, meta.ReadyCondition, v1alpha1.ReasonSucceeded, "applied")
	conditions.MarkTrue(p.sync, v1alpha1.RolledOutCondition, v1alpha1.ReasonSucceeded, "each node matches its definitions")
	const says = "nodepools.karpenter.sh does not exist"
	err := p.see(t.Context())
	if f := fault.Classify(err); f == nil || f.Class != fault.Waiting || !strings.Contains(err.Error(), says) {
		t.Fatalf("a Ready NodeSync: %v", err)
	}

	p.before.Status.Conditions, p.sync.Status.Rollout = nil, rollout
	if err := p.see(t.Context()); err != nil {
		t.Fatalf("one that is reported: %v", err)
	}
	p.stages.Controller.Ready = true
	p.plan.Plan = &plan.Plan{Changes: []plan.Change{{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "default"}, Action: plan.Create, Drift: true}}}
	if err := p.applyPlan(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.brake(t.Context(), false)
	if p.Drifts != nil || p.SawRollout || p.Rollout != nil {
		t.Errorf("drifts %+v, rollout seen: %t, %+v", p.Drifts, p.SawRollout, p.Rollout)
	}
	if _, err := p.conclude(t.Context()); err != nil {
		t.Fatal(err)
	}
	rolledOut := conditions.Get(p.sync, v1alpha1.RolledOutCondition)
	if rolledOut.Status != metav1.ConditionUnknown || !strings.Contains(rolledOut.Message, says) || !reflect.DeepEqual(p.sync.Status.Rollout, rollout) {
		t.Errorf("RolledOut %+v, rollout %+v", rolledOut, p.sync.Status.Rollout)
	}
}
