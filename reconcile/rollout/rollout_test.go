package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	opstatus "github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// saying describes a rollout in short.
func saying(r *v1alpha1.Rollout) string {
	if r == nil {
		return "none"
	}
	settles := ""
	if r.SettlesAt != nil {
		settles = fmt.Sprint(" settles ", r.SettlesAt.Unix())
	}
	return fmt.Sprintf("%s since %d: %s%s", r.Revision, r.Since.Unix(), rollout.Words(*r), settles)
}

func outdated(reason string, names ...string) []plan.Outdated {
	var found []plan.Outdated
	for _, name := range names {
		name, deleting := strings.CutSuffix(name, "-")
		found = append(found, plan.Outdated{Claim: &plan.NodeClaim{Name: name, UID: types.UID(name), Pool: "general", Deleting: deleting}, Reason: reason})
	}
	return found
}

func outdating(upTo bool, names ...string) rollout.Outdating {
	o := rollout.Outdating{Claims: map[types.UID]bool{}, UpTo: upTo, Committed: true}
	for _, name := range names {
		o.Claims[types.UID(name)] = true
	}
	return o
}

// TestRoll plays rollouts from their first reconcile to the last.
func TestRoll(t *testing.T) {
	const drift = "NodePoolDrifted"
	type seen struct {
		at       int64
		revision string
		changes  rollout.Outdating
		outdated []plan.Outdated
		excess   int
		unsure   bool
		// unresolved are classes whose AMIs Karpenter has yet to resolve.
		unresolved []string
		// unknown are NodeClaims without a hash.
		unknown []string
		want    string
	}
	for name, passes := range map[string][]seen{
		"a commit outdates three nodes": {
			{at: 1, revision: "a", want: "none"},
			{at: 2, revision: "b", changes: outdating(false, "1", "2", "3"), want: "b since 2: 0 of 3 nodes replaced"},
			{at: 3, revision: "b", outdated: outdated(drift, "1-", "2", "3"), want: "b since 2: 0 of 3 nodes replaced (NodePoolDrifted), 1 draining"},
			{at: 4, revision: "b", outdated: outdated(drift, "2-", "3"), want: "b since 2: 1 of 3 nodes replaced (NodePoolDrifted), 1 draining"},
			{at: 5, revision: "b", want: "none"},
		},
		"another commit in the middle of it": {
			{at: 1, revision: "a", changes: outdating(false, "1", "2", "3"), want: "a since 1: 0 of 3 nodes replaced"},
			{at: 2, revision: "a", outdated: outdated(drift, "2", "3"), want: "a since 1: 1 of 3 nodes replaced (NodePoolDrifted)"},
			{at: 3, revision: "b", changes: outdating(false, "3", "4"), outdated: outdated(drift, "2", "3"), want: "b since 3: 0 of 3 nodes replaced (NodePoolDrifted)"},
		},
		"another commit that touches no node": {
			{at: 1, revision: "a", changes: outdating(false, "1", "2"), want: "a since 1: 0 of 2 nodes replaced"},
			{at: 2, revision: "b", outdated: outdated(drift, "2"), want: "a since 1: 1 of 2 nodes replaced (NodePoolDrifted)"},
		},
		"AWS decides which": {
			{at: 1, revision: "a", changes: outdating(true), want: "a since 1: no outdated nodes found yet settles 361"},
			{at: 2, revision: "a", want: "a since 1: no outdated nodes found yet settles 361"},
			{at: 9, revision: "a", outdated: outdated("AMIDrift", "1", "2"), want: "a since 1: 0 of 2 nodes replaced (AMIDrift) settles 361"},
			{at: 60, revision: "a", want: "a since 1: 2 of 2 nodes replaced settles 361"},
			{at: 361, revision: "a", want: "none"},
		},
		"another commit while AWS decides": {
			{at: 1, revision: "a", changes: outdating(true), want: "a since 1: no outdated nodes found yet settles 361"},
			{at: 100, revision: "b", changes: outdating(false, "1"), want: "b since 100: 0 of 1 nodes replaced settles 361"},
			{at: 200, revision: "b", want: "b since 100: 1 of 1 nodes replaced settles 361"},
			{at: 300, revision: "b", outdated: outdated("SubnetDrift", "2"), want: "b since 100: 0 of 1 nodes replaced (SubnetDrift) settles 361"},
			{at: 361, revision: "b", want: "none"},
		},
		"another commit, on which AWS decides, too": {
			{at: 1, revision: "a", changes: outdating(true), want: "a since 1: no outdated nodes found yet settles 361"},
			{at: 100, revision: "b", changes: outdating(true), want: "b since 100: no outdated nodes found yet settles 460"},
		},
		"another commit, of which Karpenter has not noted all": {
			{at: 1, revision: "a", changes: outdating(true), want: "a since 1: no outdated nodes found yet settles 361"},
			{at: 100, revision: "b", changes: outdating(false, "1"), want: "b since 100: 0 of 1 nodes replaced settles 361"},
			{at: 101, revision: "b", unsure: true, want: "b since 100: 1 of 1 nodes replaced settles 461"},
			{at: 300, revision: "b", unsure: true, want: "b since 100: 1 of 1 nodes replaced settles 461"},
			{at: 461, revision: "b", unsure: true, want: "none"},
		},
		"another commit when AWS has decided": {
			{at: 1, revision: "a", changes: outdating(true, "1"), want: "a since 1: 0 of 1 nodes replaced settles 361"},
			{at: 400, revision: "b", changes: outdating(false, "1"), want: "b since 400: 0 of 1 nodes replaced"},
			{at: 401, revision: "b", want: "none"},
		},
		"Karpenter looks for the AMIs": {
			{at: 1, revision: "a", changes: rollout.Outdating{Images: true, Committed: true}, want: "a since 1: no outdated nodes found yet"},
			{at: 2, revision: "a", unresolved: []string{"default"}, want: "a since 1: no outdated nodes found yet"},
			{at: 3, revision: "a", outdated: outdated("AMIDrift", "1", "2"), want: "a since 1: 0 of 2 nodes replaced (AMIDrift)"},
			{at: 4, revision: "a", outdated: outdated("AMIDrift", "2"), unresolved: []string{"default"}, want: "a since 1: 0 of 2 nodes replaced (AMIDrift)"},
			{at: 5, revision: "a", unresolved: []string{"default"}, want: "a since 1: 0 of 2 nodes replaced"},
			{at: 6, revision: "a", want: "none"},
		},
		"nothing is known while it looks": {
			{at: 1, revision: "a", changes: outdating(false, "1", "2"), want: "a since 1: 0 of 2 nodes replaced"},
			{at: 2, revision: "a", unresolved: []string{"default"}, want: "a since 1: 0 of 2 nodes replaced"},
			{at: 3, revision: "a", outdated: outdated("AMIDrift", "2"), want: "a since 1: 1 of 2 nodes replaced (AMIDrift)"},
			{at: 4, revision: "a", want: "none"},
		},
		"it finds those that it had": {
			{at: 1, revision: "a", changes: rollout.Outdating{Images: true, Committed: true}, want: "a since 1: no outdated nodes found yet"},
			{at: 2, revision: "a", want: "none"},
		},
		"what Karpenter has not noted yet": {
			{at: 1, revision: "a", changes: outdating(false, "1"), unsure: true, want: "a since 1: 0 of 1 nodes replaced settles 361"},
			{at: 2, revision: "a", unsure: true, want: "a since 1: 1 of 1 nodes replaced settles 361"},
			{at: 400, revision: "a", unsure: true, want: "none"},
		},
		"of one nothing is known until it is gone": {
			{at: 1, revision: "a", changes: outdating(false, "1", "2"), want: "a since 1: 0 of 2 nodes replaced"},
			{at: 400, revision: "a", unknown: []string{"2"}, want: "a since 1: 1 of 2 nodes replaced"},
			{at: 4000, revision: "a", unknown: []string{"2"}, want: "a since 1: 1 of 2 nodes replaced"},
			{at: 4001, revision: "a", want: "none"},
		},
		"without a hash, and no commit": {{at: 1, revision: "a", unknown: []string{"2"}, want: "none"}},
		"nodes that drift by no commit": {
			{at: 1, revision: "a", outdated: outdated("AMIDrift", "1"), want: " since 1: 0 of 1 nodes replaced (AMIDrift, not caused by a commit)"},
			{at: 2, revision: "a", outdated: outdated("AMIDrift", "1-", "2"), want: " since 1: 0 of 2 nodes replaced (AMIDrift, not caused by a commit), 1 draining"},
			{at: 3, revision: "a", want: "none"},
		},
		"a commit after nodes drifted by themselves": {
			{at: 1, revision: "a", outdated: outdated("AMIDrift", "1"), want: " since 1: 0 of 1 nodes replaced (AMIDrift, not caused by a commit)"},
			{at: 2, revision: "b", changes: outdating(false, "1", "2"), outdated: outdated("AMIDrift", "1"), want: "b since 2: 0 of 2 nodes replaced (AMIDrift)"},
		},
		"fewer replicas": {
			{at: 1, revision: "a", changes: rollout.Outdating{Unnamed: 2, Committed: true}, want: "a since 1: 0 of 2 nodes replaced"},
			{at: 2, revision: "a", excess: 1, want: "a since 1: 1 of 2 nodes replaced"},
			{at: 3, revision: "a", want: "none"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r *v1alpha1.Rollout
			for _, pass := range passes {
				r = rollout.Roll(r, rollout.Seen{
					Changes: pass.changes, Matched: plan.Matched{Outdated: pass.outdated, Unsure: pass.unsure, Unresolved: pass.unresolved, Unknown: pass.unknown}, Excess: pass.excess,
					Revision: pass.revision, Now: time.Unix(pass.at, 0),
				})
				if diff := cmp.Diff(pass.want, saying(r)); diff != "" {
					t.Fatalf("at %d (-want +got):\n%s", pass.at, diff)
				}
			}
		})
	}
}

// TestARolloutKnowsWhatWasAppliedBefore shows that a rollout can be reverted: for a commit that comes while AWS decides
// which nodes the previous one has outdated, it has the revision before that one.
func TestARolloutKnowsWhatWasAppliedBefore(t *testing.T) {
	seen := func(at int64, revision, applied string, changes rollout.Outdating, names ...string) rollout.Seen {
		return rollout.Seen{Changes: changes, Matched: plan.Matched{Outdated: outdated("x", names...)}, Revision: revision, Applied: applied, Now: time.Unix(at, 0)}
	}
	for name, c := range map[string]struct {
		first rollout.Outdating
		from  string
	}{"known at once": {outdating(false, "1"), "b"}, "AWS decides": {outdating(true), "a"}} {
		first := rollout.Roll(nil, seen(1, "b", "a", c.first))
		if later := rollout.Roll(first, seen(2, "b", "b", rollout.Outdating{}, "1")); first.From != "a" || later.From != "a" {
			t.Errorf("%s: from %q, later %q", name, first.From, later.From)
		}
		if second := rollout.Roll(first, seen(3, "c", "b", outdating(false, "2"), "1")); second.Revision != "c" || second.From != c.from {
			t.Errorf("%s: another commit: %s from %q, want from %q", name, second.Revision, second.From, c.from)
		}
	}
	if drifts := rollout.Roll(nil, seen(1, "b", "a", rollout.Outdating{}, "1")); drifts.From != "" || drifts.Revision != "" {
		t.Errorf("by no commit: %+v", drifts)
	}
}

// TestProgressIsWhenNumbersChange shows this, so that an idle rollout is never written.
func TestProgressIsWhenNumbersChange(t *testing.T) {
	look := func(at int64, names ...string) rollout.Seen {
		return rollout.Seen{Matched: plan.Matched{Outdated: outdated("AMIDrift", names...)}, Revision: "a", Now: time.Unix(at, 0)}
	}
	first := rollout.Roll(nil, look(1, "1", "2"))
	second := rollout.Roll(first, look(50, "1", "2"))
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("nothing has changed:\n%s", diff)
	}
	if third := rollout.Roll(second, look(60, "1")); third.LastProgress.Unix() != 60 || second.LastProgress.Unix() != 1 {
		t.Errorf("progress: %v, then %v", second.LastProgress, third.LastProgress)
	}
}

// TestOutdatedByChanges shows that only what is written counts, and only nodes that are known by name.
func TestOutdatedByChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change plan.Change
		want   rollout.Outdating
	}{
		"held":          {plan.Change{Action: plan.Hold, Effect: plan.EffectReplace, Nodes: 3}, rollout.Outdating{Claims: map[types.UID]bool{}}},
		"no effect":     {plan.Change{Action: plan.Update, Effect: plan.EffectNone}, rollout.Outdating{Claims: map[types.UID]bool{}}},
		"wider budgets": {plan.Change{Action: plan.Update, Effect: plan.EffectReplace, Nodes: 3, UpTo: true}, rollout.Outdating{Claims: map[types.UID]bool{}, Committed: true}},
		"up to":         {plan.Change{Action: plan.Update, Effect: plan.EffectReplace, Nodes: 3, UpTo: true, DriftReasons: []string{"AMIDrift", "SubnetDrift"}}, rollout.Outdating{Claims: map[types.UID]bool{}, Unnamed: 0, UpTo: true, Committed: true}},
		"of other AMIs": {plan.Change{Action: plan.Update, Effect: plan.EffectReplace, Nodes: 3, UpTo: true, DriftReasons: []string{"AMIDrift", "NodeClassDrift"}}, rollout.Outdating{Claims: map[types.UID]bool{}, Images: true, Committed: true}},
		"drains":        {plan.Change{Action: plan.Update, Effect: plan.EffectDrain, Nodes: 3}, rollout.Outdating{Claims: map[types.UID]bool{}, Unnamed: 3, Committed: true}},
		"reverted":      {plan.Change{Action: plan.Update, Effect: plan.EffectDrain, Nodes: 3, Drift: true}, rollout.Outdating{Claims: map[types.UID]bool{}, Unnamed: 3}},
		"taken back":    {plan.Change{Action: plan.TakeBack, Effect: plan.EffectDrain, Nodes: 1}, rollout.Outdating{Claims: map[types.UID]bool{}, Unnamed: 1, Committed: true}},
	} {
		if diff := cmp.Diff(c.want, rollout.OutdatedBy([]plan.Change{c.change})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestARolloutRecordsWhatIsUnhashed shows that it does so while it lasts, and passes it to the rollout of the next
// commit.
func TestARolloutRecordsWhatIsUnhashed(t *testing.T) {
	var r *v1alpha1.Rollout
	for i, unhashed := range [][]string{{"NodePool/b"}, nil, {"NodePool/a", "NodePool/b"}, nil} {
		changes := outdating(false, "1")
		changes.Unhashed = unhashed
		r = rollout.Roll(r, rollout.Seen{Changes: changes, Revision: []string{"a", "a", "b", "b"}[i], Now: time.Unix(int64(i), 0)})
		want := [][]string{{"NodePool/b"}, {"NodePool/b"}, {"NodePool/a", "NodePool/b"}, {"NodePool/a", "NodePool/b"}}[i]
		if diff := cmp.Diff(want, r.Unhashed); diff != "" {
			t.Errorf("pass %d (-want +got):\n%s", i, diff)
		}
		if r.Outdated != 1 {
			t.Errorf("pass %d: %d outdated", i, r.Outdated)
		}
	}
}

// drains is a rollout whose nodes drain, with what blocks them in the cluster.
type drains struct {
	t       *testing.T
	client  client.WithWatch
	reads   int
	refuses string
	now     time.Time
	claims  []plan.NodeClaim
	pools   []rollout.Pool
	memory  *rollout.Memory
	rollout *v1alpha1.Rollout
	wake    time.Time

	launchFailures []rollout.LaunchFailure
}

func newDrains(t *testing.T, objects ...client.Object) *drains {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme, cluster.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	d := &drains{t: t, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), memory: &rollout.Memory{}, pools: []rollout.Pool{pool("a", map[string]any{"nodes": "1"})}}
	d.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.Name} }).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			d.reads++
			if _, pods := list.(*corev1.PodList); pods && d.refuses != "" {
				return errors.New(d.refuses)
			}
			return c.List(ctx, list, opts...)
		}}).Build()
	return d
}

// ending returns a NodeClaim that has been terminating since a time, on node-NAME.
func (d *drains) ending(name string, since time.Time, conditions ...opstatus.Condition) {
	d.t.Helper()
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"karpenter.sh/termination"}}}
	claim.Status.NodeName, claim.Status.ProviderID, claim.Status.Conditions = "node-"+name, "aws:///eu-west-1a/i-0123456789abcdef0", conditions
	if err := d.client.Create(d.t.Context(), claim); err != nil {
		d.t.Fatal(err)
	}
	if err := d.client.Delete(d.t.Context(), claim); err != nil {
		d.t.Fatal(err)
	}
	c := drifted(name, "a", true)
	c.Node, c.Deleted = "node-"+name, since
	d.claims = append(d.claims, c)
}

// look looks some time after the last look, and returns the message.
func (d *drains) look(later time.Duration) string {
	d.t.Helper()
	d.now = d.now.Add(later)
	r := rollout.Rollouts{
		Live: plan.Live{Objects: map[render.Ref]*plan.Object{}, NodeClaims: d.claims}, Pools: d.pools, Events: d.client, LaunchFailures: d.launchFailures,
		EC2:    func(context.Context) (rollout.EC2, error) { return &shows{}, nil },
		Before: d.rollout, Reported: d.rollout, Now: d.now, Memory: d.memory,
	}
	d.rollout, d.wake = r.Look(d.t.Context()).Rollout, r.WakeAt
	if !d.wake.IsZero() && !d.wake.After(d.now) {
		d.t.Errorf("it asks for a look at %s, which is past", d.wake)
	}
	return d.rollout.Message
}

func webPod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web-0", Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{NodeName: "node-1"}}
	for _, c := range change {
		c(p)
	}
	return p
}

func webBudget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, ExpectedPods: 2, DesiredHealthy: 2},
	}
}

const byBudget = "waits for PodDisruptionBudget web/web, which allows no disruption (healthy: 2 of 2, 2 needed) of pod web/web-0 (node node-1, NodeClaim/1)"

// TestWhatKeepsNodesThatDrain shows that, once the rollout makes no progress, causes are reported that a person has to
// check; what each drain waits for briefly is reported only for a slow one.
func TestWhatKeepsNodesThatDrain(t *testing.T) {
	volume := "pv-1"
	attached := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-1"},
		Spec:       storagev1.VolumeAttachmentSpec{NodeName: "node-1", Attacher: "ebs.csi.aws.com", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
	kept := func(p *corev1.Pod) { p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"} }
	finalizer := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/keep"}
	}
	const at = " (node node-1, NodeClaim/1)"
	drained := []opstatus.Condition{
		{Type: karpv1.ConditionTypeDrained, Status: "True"}, {Type: karpv1.ConditionTypeVolumesDetached, Status: "True"},
	}
	for name, c := range map[string]struct {
		objects     []client.Object
		conditions  []opstatus.Condition
		refuses     string
		quiet, slow string
	}{
		"a budget":                   {objects: []client.Object{webPod(), webBudget()}, quiet: byBudget, slow: byBudget},
		"a pod not to be disrupted":  {objects: []client.Object{webPod(kept)}, quiet: "waits for pod web/web-0, annotated karpenter.sh/do-not-disrupt" + at, slow: "waits for pod web/web-0, annotated karpenter.sh/do-not-disrupt" + at},
		"a pod's finalizer":          {objects: []client.Object{webPod(finalizer)}, quiet: "waits for pod web/web-0, which waits for its finalizer example.com/keep" + at, slow: "waits for pod web/web-0, which waits for its finalizer example.com/keep" + at},
		"a pod":                      {objects: []client.Object{webPod()}, slow: "waits for pod web/web-0" + at},
		"a volume":                   {objects: []client.Object{attached}, slow: "waits for volume pv-1 (VolumeAttachment csi-1) to be detached by ebs.csi.aws.com" + at},
		"an instance":                {conditions: []opstatus.Condition{{Type: karpv1.ConditionTypeInstanceTerminating, Status: "Unknown", Message: "it shuts down"}}, slow: "waits for InstanceTerminating: it shuts down" + at},
		"EC2 protects it":            {conditions: drained, quiet: "waits for EC2 to accept the termination of i-0123456789abcdef0: the node is drained, but EC2 protects it from termination (disableApiTermination)" + at, slow: "waits for EC2 to accept the termination of i-0123456789abcdef0: the node is drained, but EC2 protects it from termination (disableApiTermination)" + at},
		"its pods may not be listed": {objects: []client.Object{webPod(), webBudget()}, refuses: "pods is forbidden", quiet: "read what keeps NodeClaim/1: pods is forbidden", slow: "waits for Karpenter to terminate it" + at},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrains(t, c.objects...)
			for i := range c.conditions {
				c.conditions[i].LastTransitionTime = metav1.NewTime(d.now.Add(-time.Minute))
			}
			d.refuses = c.refuses
			d.ending("1", d.now, c.conditions...)
			d.claims = append(d.claims, drifted("2", "a", false))
			for range 2 {
				if got := d.look(0); got != "" || d.reads > 0 || !d.wake.Equal(d.now.Add(30*time.Second)) {
					t.Fatalf("as it begins: %q, after %d reads, next look at %s", got, d.reads, d.wake)
				}
			}
			if got := d.look(30 * time.Second); got != c.quiet || !d.wake.Equal(d.now.Add(5*time.Second)) {
				t.Errorf("after 30 s: %q\nwant %q; next look at %s", got, c.quiet, d.wake)
			}
			read := d.reads
			if got := d.look(4 * time.Second); got != c.quiet || d.reads != read {
				t.Errorf("4 s later: %q, after %d more reads", got, d.reads-read)
			}
			if got := d.look(2 * time.Minute); got != c.slow || d.reads == read {
				t.Errorf("after two minutes: %q\nwant %q", got, c.slow)
			}
		})
	}
}

// TestTheOldestDrainsAreLookedInto shows that the three oldest are diagnosed, and that the result stays while others
// proceed.
func TestTheOldestDrainsAreLookedInto(t *testing.T) {
	d := newDrains(t, webPod(), webBudget())
	for i, name := range []string{"5", "4", "3", "2"} {
		d.ending(name, d.now.Add(time.Duration(-i)*time.Second))
	}
	d.ending("1", d.now.Add(-time.Minute))
	d.look(0)
	if got := d.look(30 * time.Second); got != byBudget || d.reads > 11 { // volumes, budgets, and for 3 nodes the pods and two kinds of events
		t.Errorf("%q, after %d reads", got, d.reads)
	}
	d.claims = d.claims[1:] // another one is gone
	if got := d.look(time.Second); got != byBudget {
		t.Errorf("while others go on: %q", got)
	}
	if err := d.client.Delete(t.Context(), webBudget()); err != nil {
		t.Fatal(err)
	}
	if got := d.look(time.Minute); got == byBudget {
		t.Errorf("the budget has gone: %q", got)
	}
	d.claims = []plan.NodeClaim{drifted("9", "a", true)}
	if got := d.look(time.Second); got != "" {
		t.Errorf("all that was looked into has gone: %q", got)
	}
}

// TestAHangingDrainIsSaidBesideTheRest shows it in addition to what blocks the nodes that must still be replaced, in
// short.
func TestAHangingDrainIsSaidBesideTheRest(t *testing.T) {
	for want, c := range map[string]struct {
		budget         map[string]any
		launchFailures []rollout.LaunchFailure
		all            bool
	}{
		"next window of NodePool/a 17:00 UTC; ":                      {budget: map[string]any{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}},
		"NodePool/a allows no replacement; ":                         {budget: map[string]any{"nodes": "0"}},
		"NodePool/a has a disruption budget that cannot be parsed; ": {budget: map[string]any{"nodes": "0", "schedule": "at night", "duration": "8h"}},
		"NodePool/a launches no replacements: no capacity; ":         {budget: map[string]any{"nodes": "1"}, launchFailures: []rollout.LaunchFailure{{Pool: "a", Why: "no capacity"}}},
		"": {budget: map[string]any{"nodes": "0"}, all: true},
	} {
		d := newDrains(t, webPod(), webBudget())
		d.pools, d.launchFailures = []rollout.Pool{pool("a", c.budget)}, c.launchFailures
		d.ending("1", d.now)
		if !c.all {
			d.claims = append(d.claims, drifted("2", "a", false))
		}
		d.look(0)
		if got := d.look(30 * time.Second); got != want+byBudget {
			t.Errorf("got  %q\nwant %q", got, want+byBudget)
		}
	}
}

// TestABudgetThatKeepsADrainFitsInACommitStatus of at most 140 characters.
func TestABudgetThatKeepsADrainFitsInACommitStatus(t *testing.T) {
	d := newDrains(t, webPod(), webBudget())
	d.ending("1", d.now)
	d.claims = append(d.claims, drifted("2", "a", false))
	d.look(0)
	d.look(30 * time.Second)
	if words := "rolling out: " + rollout.Words(*d.rollout); strings.Index(words, "web/web") > 120 || !strings.Contains(words, "1 draining: waits for PodDisruptionBudget web/web, which") {
		t.Errorf("%q", words)
	}
}

// TestARolloutNamesAllBudgetsThatBlockIt: Karpenter's event on one node names one PodDisruptionBudget; the message
// counts the nodes and the budgets of all of them. If the event gives another reason, the message quotes that.
func TestARolloutNamesAllBudgetsThatBlockIt(t *testing.T) {
	for name, c := range map[string]struct {
		nodes, budgets, shared int
		event, want            string
	}{
		"one of one":  {nodes: 1, budgets: 1, event: "Pdb prevents pod evictions (PodDisruptionBudget=[web/web-00])", want: "0 of 1 node can drain: 1 PodDisruptionBudget can never allow an eviction: web/web-00"},
		"forty":       {nodes: 4, budgets: 40, event: "Pdb prevents pod evictions (PodDisruptionBudget=[web/web-00])", want: "0 of 4 nodes can drain: 40 PodDisruptionBudgets can never allow an eviction: web/web-00, web/web-01, web/web-02, web/web-03, web/web-04 and 35 more"},
		"not now":     {nodes: 2, budgets: 1, shared: 1, event: "Pdb prevents pod evictions (PodDisruptionBudget=[web/web-00])", want: "1 of 2 nodes can drain: 1 PodDisruptionBudget allows no disruption now: web/web-00"},
		"many nodes":  {nodes: 30, budgets: 30, event: "Pdb prevents pod evictions (PodDisruptionBudget=[web/web-00])", want: "0 of 25 nodes can drain: 25 PodDisruptionBudgets can never allow an eviction: web/web-00, web/web-01, web/web-02, web/web-03, web/web-04 and 20 more; 5 more nodes were not examined"},
		"not budgets": {nodes: 4, budgets: 40, event: "Can't replace with a cheaper node", want: "NodeClaim/00: Can't replace with a cheaper node"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrains(t)
			create := func(o client.Object) {
				if err := d.client.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			for i := range c.nodes {
				d.claims = append(d.claims, drifted(fmt.Sprintf("%02d", i), "a", false))
				create(webPod(func(p *corev1.Pod) {
					p.Name, p.Labels, p.Spec.NodeName = fmt.Sprintf("free-%02d", i), nil, d.claims[i].Node
				}))
			}
			for i := range c.budgets {
				app := fmt.Sprintf("web-%02d", i)
				create(webPod(func(p *corev1.Pod) {
					p.Name, p.Labels["app"], p.Spec.NodeName = app, app, d.claims[i%c.nodes].Node
				}))
				budget := webBudget()
				budget.Name, budget.Spec.Selector.MatchLabels["app"] = app, app
				budget.Status = policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1, ExpectedPods: int32(1 + c.shared), DesiredHealthy: 1}
				create(budget)
			}
			create(&corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, InvolvedObject: corev1.ObjectReference{Name: "00"},
				Reason: "DisruptionBlocked", Message: c.event, LastTimestamp: metav1.NewTime(d.now),
			})
			d.look(0)
			if got := d.look(30 * time.Second); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestAnotherCommitKeepsThePoolsOfTheFirst while it is unknown which of their nodes that one has outdated.
func TestAnotherCommitKeepsThePoolsOfTheFirst(t *testing.T) {
	for name, c := range map[string]struct {
		upTo       bool
		at         int64
		unresolved []string
		want       []string
	}{
		"while AWS decides":                 {upTo: true, at: 100, want: []string{"a", "b"}},
		"when AWS has decided":              {upTo: true, at: 400, want: []string{"b"}},
		"while Karpenter resolves the AMIs": {at: 100, unresolved: []string{"default"}, want: []string{"a", "b"}},
		"when all are replaced":             {at: 100, want: []string{"b"}},
	} {
		first := rollout.Roll(nil, rollout.Seen{Changes: outdating(c.upTo, "1"), Pools: []string{"a"}, Revision: "r1", Now: time.Unix(1, 0)})
		second := rollout.Roll(first, rollout.Seen{
			Changes: outdating(false, "2"), Matched: plan.Matched{Unresolved: c.unresolved}, Pools: []string{"b"}, Revision: "r2", Now: time.Unix(c.at, 0),
		})
		if diff := cmp.Diff(c.want, second.Pools); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
