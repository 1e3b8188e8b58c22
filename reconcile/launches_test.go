package reconcile

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// refusedLaunch returns a NodeClaim that was deleted without an instance.
func refusedLaunch(name string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: "cheap"}, DeletionTimestamp: &metav1.Time{Time: time.Unix(9, 0)},
	}}
}

func eventOn(claim, message string) client.Object {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: claim}, InvolvedObject: corev1.ObjectReference{Name: claim},
		Reason: "InsufficientCapacityError", Message: "NodeClaim " + claim + " event: " + message,
	}
}

// looksAtLaunches runs that step of a reconcile over a Set with the pools cheap and general, and concludes.
func (b *bed) looksAtLaunches() (*v1alpha1.NodeSync, time.Duration) {
	b.t.Helper()
	p := b.pass()
	p.want.Set = &render.Set{}
	for _, name := range []string{"cheap", "general"} {
		p.want.Set.Objects = append(p.want.Set.Objects, render.Object{Ref: render.Ref{Kind: render.NodePool, Name: name}})
	}
	p.takes(b.t.Context(), p.seeLaunches)
	result, err := p.conclude(b.t.Context())
	if err != nil || p.Fault != nil {
		b.t.Fatal(err, p.Fault)
	}
	return b.read(), result.RequeueAfter
}

// TestAPoolWithoutCapacityIsNamed shows that it is reported with Karpenter's message: once, unchanged while it lasts,
// and without changing Ready.
func TestAPoolWithoutCapacityIsNamed(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), eventOn("cheap-1", "insufficient capacity, in zone a"), eventOn("cheap-2", "insufficient capacity, in zone b"))
	b.recall(b.pass().name(), "11")
	b.registry.Remember(b.pass().name(), "11", &render.Set{Objects: []render.Object{{Ref: render.Ref{Kind: render.NodePool, Name: "cheap"}}}}, 1, b.clock.now())
	if woken := b.wakes().OnNodeClaim(t.Context(), refusedLaunch("cheap-1")); len(woken) != 1 {
		t.Fatalf("woken: %v", woken)
	}
	sync, again := b.looksAtLaunches()
	failing := conditions.Get(sync, v1alpha1.LaunchFailingCondition)
	if failing == nil || failing.Status != "True" || failing.Message != "NodePool/cheap gets no nodes: insufficient capacity, in zone a" {
		t.Fatalf("it says %+v", failing)
	}
	if !conditions.IsReady(sync) {
		t.Errorf("ready: %+v", conditions.Get(sync, meta.ReadyCondition))
	}
	if again > cluster.FailedLaunchLasts {
		t.Errorf("looked at again in %s: by then it is over", again)
	}
	told := b.told()
	if !slices.ContainsFunc(told, func(e string) bool { return strings.HasPrefix(e, "Warning LaunchFailed NodePool/cheap") }) {
		t.Errorf("told: %v", told)
	}

	b.clock.forward(3 * time.Minute)
	b.wakes().OnNodeClaim(t.Context(), refusedLaunch("cheap-2"))
	later, _ := b.looksAtLaunches()
	if later.ResourceVersion != sync.ResourceVersion {
		t.Errorf("written again: %+v", later.Status.Conditions)
	}
	if told := b.told(); len(told) > 0 {
		t.Errorf("told again: %v", told)
	}

	runs := refusedLaunch("cheap-3")
	runs.DeletionTimestamp, runs.Status.ProviderID = nil, "aws:///a/i-1"
	if woken := b.wakes().OnNodeClaim(t.Context(), runs); len(woken) != 1 {
		t.Errorf("a launch that succeeds wakes %v", woken)
	}
	if sync, _ := b.looksAtLaunches(); conditions.Has(sync, v1alpha1.LaunchFailingCondition) {
		t.Errorf("it is over, and says %+v", sync.Status.Conditions)
	}
	if woken := b.wakes().OnNodeClaim(t.Context(), runs); len(woken) != 0 {
		t.Errorf("a NodeClaim that brings no news wakes %v", woken)
	}
}

// TestALaunchOfWhichNothingIsSaid shows that plumbline waits briefly for the event, which may be late, and then does
// not count the launch as failed.
func TestALaunchOfWhichNothingIsSaid(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.wakes().OnNodeClaim(t.Context(), refusedLaunch("cheap-1"))
	sync, again := b.looksAtLaunches()
	if conditions.Has(sync, v1alpha1.LaunchFailingCondition) || again > time.Second {
		t.Errorf("again in %s, says %+v", again, sync.Status.Conditions)
	}
	if err := b.client.Create(t.Context(), eventOn("cheap-1", "no capacity")); err != nil {
		t.Fatal(err)
	}
	b.clock.forward(time.Second)
	if sync, _ = b.looksAtLaunches(); !conditions.Has(sync, v1alpha1.LaunchFailingCondition) {
		t.Error("the event has come, and nothing is said")
	}

	b = newBed(t, nodeSync(unchanged))
	b.wakes().OnNodeClaim(t.Context(), refusedLaunch("cheap-1"))
	b.looksAtLaunches()
	b.clock.forward(5 * time.Second)
	if _, again = b.looksAtLaunches(); again < time.Minute {
		t.Errorf("no event comes, and it is looked for again in %s", again)
	}
	if _, failed := b.Cluster.Launches.Failed("cheap"); failed {
		t.Error("it counts as failed for ever")
	}
}

// TestNobodyLooksWhileSuspended shows that what may be over is not reported.
func TestNobodyLooksWhileSuspended(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), eventOn("cheap-1", "no capacity"))
	b.wakes().OnNodeClaim(t.Context(), refusedLaunch("cheap-1"))
	b.looksAtLaunches()
	p := b.pass()
	p.Suspended = true
	p.summarize(t.Context())
	if conditions.Has(p.sync, v1alpha1.LaunchFailingCondition) {
		t.Error("it is said")
	}
}

// TestAPassThatFailsBeforeItLooks keeps what was reported.
func TestAPassThatFailsBeforeItLooks(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), eventOn("cheap-1", "no capacity"))
	b.wakes().OnNodeClaim(t.Context(), refusedLaunch("cheap-1"))
	b.looksAtLaunches()
	p := b.pass()
	stopped(t, errUnreachable)(p)
	p.summarize(t.Context())
	if !conditions.Has(p.sync, v1alpha1.LaunchFailingCondition) || len(p.Notes) > 0 {
		t.Errorf("it says %+v, and tells %v", p.sync.Status.Conditions, p.Notes)
	}
}

// TestACommitStatusNamesAPoolWithoutNodes shows that the commit is no success while the pool has no node; if it has
// some, the message is about its newest launch.
func TestACommitStatusNamesAPoolWithoutNodes(t *testing.T) {
	static := func(n int) map[string]any { return map[string]any{"replicas": int64(n)} }
	ready := plan.NodeClaim{Pool: "cheap", Node: "ip-1", Initialized: true}
	cases := map[string]struct {
		nodes []plan.NodeClaim
		state report.State
		words string
		spec  map[string]any
	}{
		"none":           {nil, report.Pending, "launch failing: no node of NodePool/cheap", nil},
		"another pool's": {[]plan.NodeClaim{{Pool: "general", Node: "ip-1"}}, report.Pending, "launch failing: no node of NodePool/cheap", nil},
		"one that goes":  {[]plan.NodeClaim{{Pool: "cheap", Node: "ip-1", Deleting: true}}, report.Pending, "launch failing: no node of NodePool/cheap", nil},
		"one":            {[]plan.NodeClaim{{Pool: "cheap", Node: "ip-1"}}, report.Success, "applied; the newest launch of NodePool/cheap failed", nil},
		"static, none":   {nil, report.Pending, "launch failing: 0 of 2 nodes of NodePool/cheap", static(2)},
		"static, one":    {[]plan.NodeClaim{ready}, report.Pending, "launch failing: 1 of 2 nodes of NodePool/cheap", static(2)},
		"static, all":    {[]plan.NodeClaim{ready, ready}, report.Success, "applied; the newest launch of NodePool/cheap failed", static(2)},
		"static, of 0":   {nil, report.Success, "applied; the newest launch of NodePool/cheap failed", static(0)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newBed(t, nodeSync(unchanged)).pass()
			p.live.NodeClaims = c.nodes
			pool := &unstructured.Unstructured{Object: map[string]any{"spec": c.spec}}
			p.want.Set = &render.Set{Objects: []render.Object{{Ref: render.Ref{Kind: render.NodePool, Name: "cheap"}, Defaulted: pool}}}
			p.Looked, p.LaunchFailures = true, []rollout.LaunchFailure{{Pool: "cheap", Why: "insufficient capacity, with fleet error(s), InsufficientInstanceCapacity"}}
			p.summarize(t.Context())
			v := p.verdict()
			if v.CommitState() != c.state || v.CommitText() != c.words+": insufficient capacity, with fleet error(s), InsufficientInstanceCapacity" {
				t.Errorf("%s: %s", v.CommitState(), v.CommitText())
			}
			if !conditions.IsReady(p.sync) {
				t.Error("Ready hangs on it")
			}
		})
	}
}

// TestNodesThatDoNotRegister count as none: Karpenter reports so in a condition besides Ready.
func TestNodesThatDoNotRegister(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	p := b.pass()
	ref := render.Ref{Kind: render.NodePool, Name: "cheap"}
	live := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "True"},
		map[string]any{"type": "NodeRegistrationHealthy", "status": "False", "reason": "RegistrationFailed", "message": "Failed to register node"},
	}}}}
	p.want.Set = &render.Set{Objects: []render.Object{{Ref: ref}}}
	p.live.Objects = map[render.Ref]*plan.Object{ref: plan.NewObject(live)}
	p.takes(t.Context(), p.seeLaunches)
	want := []rollout.LaunchFailure{{Pool: "cheap", Why: "its nodes do not register: RegistrationFailed: Failed to register node"}}
	if !slices.Equal(p.LaunchFailures, want) {
		t.Errorf("%+v", p.LaunchFailures)
	}
}

// TestAPoolWithoutAnInstanceTypeIsNamed shows that Karpenter's event triggers a reconcile only of the NodeSync that has
// the NodePool, which names it.
func TestAPoolWithoutAnInstanceTypeIsNamed(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.recall(b.pass().name(), "11")
	b.registry.Remember(b.pass().name(), "11", &render.Set{Objects: []render.Object{{Ref: render.Ref{Kind: render.NodePool, Name: "cheap"}}}}, 1, b.clock.now())
	event := func(pool string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pool}, InvolvedObject: corev1.ObjectReference{Kind: "NodePool", Name: pool},
			Reason: "NoCompatibleInstanceTypes", Message: "NodePool requirements filtered out all", LastTimestamp: metav1.NewTime(b.clock.now()),
		}
	}
	if woken := b.wakes().OnEvent(t.Context(), event("of-another")); len(woken) != 0 {
		t.Errorf("woken: %v", woken)
	}
	if woken := b.wakes().OnEvent(t.Context(), event("cheap")); len(woken) != 1 {
		t.Fatalf("woken: %v", woken)
	}
	sync, _ := b.looksAtLaunches()
	failing := conditions.Get(sync, v1alpha1.LaunchFailingCondition)
	if failing == nil || failing.Message != "NodePool/cheap gets no nodes: Karpenter finds no instance type for it: NodePool requirements filtered out all" {
		t.Fatalf("it says %+v", failing)
	}
	if named := sync.Status.LaunchFailing; len(named) != 1 || named[0].Pool != "cheap" {
		t.Errorf("the status has %+v", named)
	}
	b.clock.forward(cluster.FailedLaunchLasts)
	if sync, _ := b.looksAtLaunches(); conditions.Has(sync, v1alpha1.LaunchFailingCondition) {
		t.Errorf("ten minutes later it says %+v", conditions.Get(sync, v1alpha1.LaunchFailingCondition))
	}
}

// TestAClassWithoutAMIHasItsPoolsNamed shows that its pools are named once AWS has answered, for the account and the
// Kubernetes version of the cluster, that it publishes no AMI.
func TestAClassWithoutAMIHasItsPoolsNamed(t *testing.T) {
	pool, class := render.Ref{Kind: render.NodePool, Name: "web"}, render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	object := func(ref render.Ref, spec map[string]any) *plan.Object {
		return plan.NewObject(&unstructured.Unstructured{Object: map[string]any{"kind": ref.Kind, "metadata": map[string]any{"name": ref.Name}, "spec": spec}})
	}
	for name, c := range map[string]struct {
		version string
		want    string
	}{
		"the version is known":   {"1.36", "AWS publishes no AMI for alias al2023@v20261115 of EC2NodeClass/default, so no node can be launched"},
		"the version is unknown": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, at := newBed(t, nodeSync(unchanged), installtest.Installed()...), prodEU("111122223333", "ours")
				at.Version, b.cloud.publishes = c.version, func(string) bool { return false }
				b.inAccount(at)
				p := b.atTheCharts(inForce)
				p.want.Set = &render.Set{Objects: []render.Object{{Ref: pool}}}
				p.live.Objects = map[render.Ref]*plan.Object{
					pool:  object(pool, map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"kind": class.Kind, "group": "karpenter.k8s.aws", "name": class.Name}}}}),
					class: object(class, map[string]any{"amiSelectorTerms": []any{map[string]any{"alias": "al2023@v20261115"}}}),
				}
				for range 3 { // Karpenter may resolve it; AWS is queried; the answer is there
					p.takes(t.Context(), p.seeLaunches)
					synctest.Wait()
					p.now = p.now.Add(10 * time.Second)
				}
				if p.Fault != nil {
					t.Fatal(p.Fault)
				}
				got := ""
				for _, l := range p.LaunchFailures {
					got += l.Pool + ": " + l.Why
				}
				if (got != "") != (c.want != "") || !strings.HasPrefix(strings.TrimPrefix(got, "web: "), c.want) {
					t.Errorf("launches fail: %q, want %q", got, c.want)
				}
			})
		})
	}
}
