package removal

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const instance = "aws:///eu-west-1a/i-0123456789abcdef0"

// terminationBed is a cluster with terminating objects.
type terminationBed struct {
	objects []client.Object
	claims  []plan.NodeClaim
	left    []LeftInstance
	stopped string
	log     string
	memory  TerminationMemory
}

// claim adds a NodeClaim that has been terminating since the start.
func (b *terminationBed) claim(name, pool string, change ...func(*karpv1.NodeClaim)) {
	at := metav1.NewTime(start)
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: &at, Finalizers: []string{karpv1.TerminationFinalizer}}}
	c.Status.NodeName, c.Status.ProviderID = "node-"+name, instance
	for _, f := range change {
		f(c)
	}
	b.objects = append(b.objects, c)
	b.claims = append(b.claims, plan.NodeClaim{Name: name, Pool: pool, Node: "node-" + name, ProviderID: instance, Deleting: true, Deleted: start})
}

// node adds a Node that has been terminating since the start.
func (b *terminationBed) node(name string, finalizers ...string) {
	at := metav1.NewTime(start)
	b.objects = append(b.objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: &at, Finalizers: finalizers}})
}

// see returns what one look finds after a time, and when the next is requested.
func (b *terminationBed) see(t *testing.T, after time.Duration) ([]v1alpha1.Termination, time.Time) {
	t.Helper()
	objects := b.objects
	index := func(of client.Object, field string, value func(client.Object) string) func(*fake.ClientBuilder) *fake.ClientBuilder {
		return func(f *fake.ClientBuilder) *fake.ClientBuilder {
			return f.WithIndex(of, field, func(o client.Object) []string { return []string{value(o)} })
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...)
	builder = index(&corev1.Pod{}, "spec.nodeName", func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName })(builder)
	builder = index(&corev1.Event{}, "involvedObject.name", func(o client.Object) string { return o.(*corev1.Event).InvolvedObject.Name })(builder)
	now := start.Add(after)
	look := TerminationLook{
		Claims: b.claims, Left: b.left, Controller: b.stopped, After: 5 * time.Minute, Memory: &b.memory, Now: now,
		Pools: func(pool string) bool { return pool == "general" },
		Blockers: blocker.Look{
			Reader: builder.Build(), Now: now, Log: func(context.Context) string { return b.log },
			DaemonSets: func(context.Context) plan.DaemonSets { return plan.DaemonSets{} },
		},
	}
	return look.See(t.Context()), look.WakeAt
}

// drained makes a NodeClaim one whose termination EC2 does not accept.
func drained(c *karpv1.NodeClaim) {
	for _, kind := range []string{karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached} {
		c.Status.Conditions = append(c.Status.Conditions, status.Condition{Type: kind, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)})
	}
}

// TestANodeClaimIsNamedOnceItIsOverdue checks that it is reported with what it waits for and the command; one of
// another NodeSync's pool never is.
func TestANodeClaimIsNamedOnceItIsOverdue(t *testing.T) {
	b := &terminationBed{log: `{"level":"ERROR","time":"2026-01-01T12:01:00Z","NodeClaim":{"name":"a"},"error":"terminating instance, operation error EC2: TerminateInstances, api error UnauthorizedOperation: You are not authorized to perform: ec2:TerminateInstances."}`}
	b.claim("a", "general", drained)
	b.claim("b", "theirs")
	if found, wake := b.see(t, time.Minute); len(found) != 0 || !wake.Equal(start.Add(5*time.Minute)) {
		t.Errorf("too early: %+v, next at %s", found, wake)
	}
	found, wake := b.see(t, 5*time.Minute)
	if len(found) != 1 || !wake.Equal(start.Add(5*time.Minute+5*time.Second)) {
		t.Fatalf("%+v, next at %s", found, wake)
	}
	got := found[0]
	if got.Kind != NodeClaim || got.Name != "a" || got.Node != "node-a" || got.Instance != "i-0123456789abcdef0" || got.Pool != "general" || !got.Since.Time.Equal(start) {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Message, "EC2 refuses Karpenter's role ec2:TerminateInstances (UnauthorizedOperation)") {
		t.Error(got.Message)
	}
	if got.BreakGlass == nil || got.BreakGlass.Command != "aws ec2 terminate-instances --instance-ids i-0123456789abcdef0" {
		t.Errorf("%+v", got.BreakGlass)
	}
	b.stopped = "Karpenter's controller does nothing: it has no ready replica"
	if found, _ = b.see(t, 7*time.Minute); len(found) != 1 || !strings.HasPrefix(found[0].Message, b.stopped+"; waits for ") {
		t.Errorf("without a controller: %+v", found)
	}
	b.claims, b.objects = nil, nil
	if found, _ = b.see(t, 7*time.Minute+time.Second); len(found) != 0 {
		t.Errorf("it is gone: %+v", found)
	}
}

// TestCausesOfTerminationsAreReadAgain checks that causes are read again at the interval of blocker.ReadAgain, counted
// from when the set of overdue objects last changed. Between two reads the last result remains.
func TestCausesOfTerminationsAreReadAgain(t *testing.T) {
	b := &terminationBed{}
	b.claim("a", "general")
	overdue := 5 * time.Minute
	for _, c := range []struct {
		after   time.Duration
		more    string
		stopped string
		says    string
		again   time.Duration
	}{
		{after: 0, stopped: "one", says: "one", again: 5 * time.Second},
		{after: 4 * time.Second, stopped: "two", says: "one", again: time.Second},
		{after: 5 * time.Second, stopped: "two", says: "two", again: 5 * time.Second},
		{after: time.Minute, stopped: "three", says: "three", again: 10 * time.Second},
		{after: 69 * time.Second, stopped: "four", says: "three", again: 2500 * time.Millisecond},
		{after: time.Hour, stopped: "five", says: "five", again: time.Minute},
		{after: time.Hour + time.Second, more: "b", stopped: "six", says: "six", again: 5 * time.Second},
	} {
		if c.more != "" {
			b.claim(c.more, "general")
		}
		b.stopped = c.stopped
		found, wake := b.see(t, overdue+c.after)
		if len(found) == 0 || !strings.HasPrefix(found[0].Message, c.says+"; ") || !wake.Equal(start.Add(overdue+c.after+c.again)) {
			t.Errorf("after %s: %+v, next at %s; want %q, in %s", c.after, found, wake, c.says, c.again)
		}
	}
}

// TestAllThatAreOverdueAreNamed checks that all are reported, and that the first twenty are diagnosed.
func TestAllThatAreOverdueAreNamed(t *testing.T) {
	b := &terminationBed{}
	for i := range 25 {
		b.claim(string(rune('a'+i)), "general")
	}
	found, _ := b.see(t, time.Hour)
	if len(found) != 25 || found[0].Message != "waits for Karpenter to terminate it" || !strings.HasPrefix(found[24].Message, "not diagnosed") {
		t.Errorf("%d: %+v", len(found), found)
	}
}

// TestANodeThatStaysIsNamed checks that a Node is reported as soon as its NodeClaim is gone, until the Node is gone.
// The command that removes its finalizers is included only once EC2 has terminated the instance.
func TestANodeThatStaysIsNamed(t *testing.T) {
	b := &terminationBed{}
	b.claim("a", "general")
	b.node("node-a", karpv1.TerminationFinalizer, "acme.io/hold")
	if found, _ := b.see(t, 6*time.Minute); len(found) != 1 || found[0].Kind != NodeClaim {
		t.Fatalf("while it has a NodeClaim: %+v", found)
	}
	b.claims, b.objects = nil, b.objects[1:]
	const waits = "no NodeClaim; waiting for Karpenter to remove finalizer karpenter.sh/termination, and another controller to remove finalizer acme.io/hold; "
	found, _ := b.see(t, 6*time.Minute+time.Second)
	if len(found) != 1 || found[0].Kind != Node || found[0].Pool != "general" || found[0].BreakGlass != nil || !b.memory.NeedsInstances() ||
		found[0].Message != waits+"unknown whether EC2 has terminated i-0123456789abcdef0" {
		t.Fatalf("once it has none: %+v", found)
	}
	b.left = []LeftInstance{{Kind: Node, Name: "node-a", Pool: "general", Instance: "i-0123456789abcdef0", Gone: true, Since: start}}
	found, _ = b.see(t, 8*time.Minute)
	if len(found) != 1 || found[0].Message != waits+"EC2 has terminated i-0123456789abcdef0" || b.memory.NeedsInstances() ||
		found[0].BreakGlass == nil || found[0].BreakGlass.Command != `kubectl patch node/node-a --type=merge --patch '{"metadata":{"finalizers":null}}'` {
		t.Fatalf("once EC2 has terminated its instance: %+v", found)
	}
	b.left[0].Since = start.Add(-time.Hour)
	if found, _ = b.see(t, 9*time.Minute); len(found) != 1 || found[0].BreakGlass != nil {
		t.Fatalf("another Node of that name was terminated an hour ago: %+v", found)
	}
	b.left, b.objects = nil, nil
	if found, _ = b.see(t, 10*time.Minute); len(found) != 0 {
		t.Errorf("it is gone: %+v", found)
	}
}

// TestANodeOfBeforeARestart checks that the comparison with EC2 finds such a Node.
func TestANodeOfBeforeARestart(t *testing.T) {
	b := &terminationBed{left: []LeftInstance{{Kind: Node, Name: "node-a", Pool: "general", Since: start}}}
	b.node("node-a", karpv1.TerminationFinalizer)
	if found, wake := b.see(t, time.Minute); len(found) != 0 || wake.After(start.Add(5*time.Minute)) {
		t.Errorf("too early: %+v, next at %s", found, wake)
	}
	if found, _ := b.see(t, 5*time.Minute); len(found) != 1 || found[0].Name != "node-a" {
		t.Errorf("%+v", found)
	}
}

// TestAnInstanceThatShutsDown checks that an instance without a NodeClaim that shuts down for too long is reported.
func TestAnInstanceThatShutsDown(t *testing.T) {
	b := &terminationBed{left: []LeftInstance{{Kind: TerminatingInstance, Name: "i-1", Instance: "i-1", Pool: "general", Since: start}}}
	if found, _ := b.see(t, time.Minute); len(found) != 0 {
		t.Errorf("too early: %+v", found)
	}
	if found, _ := b.see(t, 6*time.Minute); len(found) != 1 || found[0].Kind != TerminatingInstance || found[0].Name != "i-1" {
		t.Errorf("%+v", found)
	}
}

// TestAfter checks that removal.stallAfter shortens the time, and never lengthens it.
func TestAfter(t *testing.T) {
	if TerminationAfter(15*time.Minute) != 5*time.Minute || TerminationAfter(10*time.Second) != 10*time.Second {
		t.Error(TerminationAfter(15*time.Minute), TerminationAfter(10*time.Second))
	}
}
