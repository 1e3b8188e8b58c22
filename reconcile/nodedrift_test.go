package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// driftedClaim returns a NodeClaim that Karpenter has found drifted since a time.
func driftedClaim(name, pool string, since time.Time) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: pool}}}
	claim.Status.NodeName = "ip-" + name
	claim.Status.Conditions = []status.Condition{{
		Type: karpv1.ConditionTypeDrifted, Status: metav1.ConditionTrue, Reason: "NodePoolDrifted", LastTransitionTime: metav1.NewTime(since),
	}}
	return claim
}

// watchesDrift runs that step of a reconcile over a Set with the pools general and batch, after Karpenter was upgraded
// from 1.8.6 to 1.14.1, and concludes.
func (b *bed) watchesDrift(change func(*pass)) (*v1alpha1.NodeSync, time.Duration) {
	b.t.Helper()
	p := b.pass()
	p.want.Set, p.plan.Plan = &render.Set{}, &plan.Plan{}
	for _, name := range []string{"batch", "general"} {
		p.want.Set.Objects = append(p.want.Set.Objects, render.Object{Ref: render.Ref{Kind: render.NodePool, Name: name}})
	}
	change(p)
	p.takes(b.t.Context(), p.seeNodeDrift)
	result, err := p.conclude(b.t.Context())
	if err != nil || p.Fault != nil {
		b.t.Fatal(err, p.Fault)
	}
	return b.read(), result.RequeueAfter
}

// upgraded returns a NodeSync whose charts were just upgraded from 1.8.6 to 1.14.1.
func upgraded(at time.Time) *v1alpha1.NodeSync {
	until := metav1.NewTime(at.Add(5 * time.Minute))
	return nodeSync(func(sync *v1alpha1.NodeSync) {
		sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Version: "1.14.1", NodeDrift: &v1alpha1.NodeDriftWatch{
			From: "1.8.6", To: "1.14.1", Since: metav1.NewTime(at), Until: &until, ExpectedPools: []string{"batch"},
		}}
	})
}

// TestUnexpectedNodeDriftIsReported shows that it is reported with the nodes, and what blocks them: once, without
// changing Ready, and no longer than it lasts.
func TestUnexpectedNodeDriftIsReported(t *testing.T) {
	now := newClock().now()
	general := driftedClaim("general-1", "general", now)
	b := newBed(t, upgraded(now), append(installtest.Installed()[1:], general, driftedClaim("batch-1", "batch", now), driftedClaim("general-0", "general", now.Add(-time.Hour)), driftedClaim("else-1", "elsewhere", now))...)
	as := func(*pass) {}
	sync, again := b.watchesDrift(as)
	drift := conditions.Get(sync, v1alpha1.NodeDriftCondition)
	if drift == nil || drift.Status != "True" || drift.Reason != v1alpha1.ReasonUnexpectedNodeDrift {
		t.Fatalf("condition: %+v", drift)
	}
	for _, words := range []string{"unexpected node drift since Karpenter changed from 1.8.6 to 1.14.1", "ip-general-1 of general (NodeClaim general-1: NodePoolDrifted);", "karpenter.sh/do-not-disrupt", "git revert"} {
		if !strings.Contains(drift.Message, words) {
			t.Errorf("it lacks %q: %s", words, drift.Message)
		}
	}
	if !conditions.IsReady(sync) || again > 5*time.Minute {
		t.Errorf("ready: %t; looked at again in %s", conditions.IsReady(sync), again)
	}
	warned := func() int {
		return len(slices.DeleteFunc(b.told(), func(e string) bool { return !strings.HasPrefix(e, "Warning UnexpectedNodeDrift") }))
	}
	if n := warned(); n != 1 {
		t.Errorf("told %d times", n)
	}
	later, _ := b.watchesDrift(as)
	if n := warned(); n != 0 || later.ResourceVersion != sync.ResourceVersion {
		t.Errorf("told %d times more, and written: %t", n, later.ResourceVersion != sync.ResourceVersion)
	}
	if err := b.client.Delete(t.Context(), client.Object(general)); err != nil {
		t.Fatal(err)
	}
	b.clock.forward(6 * time.Minute)
	over, _ := b.watchesDrift(as)
	if conditions.Has(over, v1alpha1.NodeDriftCondition) || over.Status.Karpenter.NodeDrift != nil {
		t.Errorf("over: %+v, %+v", conditions.Get(over, v1alpha1.NodeDriftCondition), over.Status.Karpenter.NodeDrift)
	}
}

// TestNodeDriftThatACommitWants shows that such drift is not reported, whether the commit changes the pool or the
// class.
func TestNodeDriftThatACommitWants(t *testing.T) {
	now := newClock().now()
	for name, ref := range map[string]render.Ref{"the pool": {Kind: render.NodePool, Name: "general"}, "the class": {Kind: render.EC2NodeClass, Name: "default"}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, upgraded(now), append(installtest.Installed()[1:], driftedClaim("general-1", "general", now))...)
			sync, _ := b.watchesDrift(func(p *pass) {
				p.plan.Changes = []plan.Change{{Ref: ref, Action: plan.Update, Effect: plan.EffectReplace}, {Ref: render.Ref{Kind: render.NodePool, Name: "held"}, Effect: plan.EffectReplace}}
				p.did.Written = []apply.Written{{Ref: ref, Object: &unstructured.Unstructured{}}}
				p.live.NodeClaims = []plan.NodeClaim{{Pool: "general", Class: "default"}}
			})
			if told := conditions.Get(sync, v1alpha1.NodeDriftCondition); told != nil {
				t.Errorf("told: %s", told.Message)
			}
			if diff := cmp.Diff([]string{"batch", "general"}, sync.Status.Karpenter.NodeDrift.ExpectedPools); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNodeDriftWakes shows that drift triggers a reconcile of a NodeSync that watches for it, and only while it does.
func TestNodeDriftWakes(t *testing.T) {
	now := newClock().now()
	for want, sync := range map[int]*v1alpha1.NodeSync{0: nodeSync(unchanged), 1: upgraded(now)} {
		b := newBed(t, sync)
		b.recall(b.pass().name(), "11")
		b.registry.Remember(b.pass().name(), "11", &render.Set{Objects: []render.Object{{Ref: render.Ref{Kind: render.NodePool, Name: "general"}}}}, 1, b.clock.now())
		claim := driftedClaim("general-1", "general", now)
		claim.Status.ProviderID = "aws:///a/i-1"
		if woken := b.wakes().OnNodeClaim(t.Context(), claim); len(woken) != want {
			t.Errorf("woken: %v, want %d", woken, want)
		}
	}
}
