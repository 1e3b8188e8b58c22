package smoke

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

var karpenterVersion = schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}

var began = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(began.Add(time.Duration(seconds) * time.Second))
}

func pool(name string, taints ...corev1.Taint) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.Taints = taints
	return p
}

func TestWorkloadRunsOnlyOnANewNodeOfThePool(t *testing.T) {
	taint := corev1.Taint{Key: "team", Value: "data", Effect: corev1.TaintEffectNoSchedule}
	d := Workload(pool("gpu", taint), "tests", "example.com/pause")
	spec := d.Spec.Template.Spec
	if spec.NodeSelector[karpv1.NodePoolLabelKey] != "gpu" || *d.Spec.Replicas != 1 || d.Namespace != "tests" || spec.Containers[0].Image != "example.com/pause" {
		t.Errorf("%+v", d)
	}
	var excluded []string
	for _, term := range spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		excluded = append(excluded, term.LabelSelector.MatchExpressions[0].Key)
	}
	if diff := cmp.Diff([]string{"pod-template-hash", "statefulset.kubernetes.io/pod-name", "batch.kubernetes.io/job-name", Label}, excluded); diff != "" {
		t.Error(diff)
	}
	// A pod that tolerated everything would tolerate karpenter.sh/disrupted, and Karpenter would not evict it.
	want := []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpEqual, Value: "data", Effect: corev1.TaintEffectNoSchedule}}
	if diff := cmp.Diff(want, spec.Tolerations); diff != "" {
		t.Error(diff)
	}
}

func TestNamesFit(t *testing.T) {
	for _, name := range []string{"general", "a.b", strings.Repeat("x", 63), strings.Repeat("x", 200)} {
		if got := Workload(pool(name), "n", Image).Name; len(got) > 50 || strings.Contains(got, ".") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if nameFor("a.b") == nameFor("a.c") {
		t.Error("two pools have the same Deployment")
	}
}

func pod(created int, node string, conditions ...corev1.PodCondition) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "tests", CreationTimestamp: at(created), Labels: map[string]string{Label: hashOf("general")}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Conditions: conditions},
	}
}

func claim(name string, created int, node string, true_ map[string]int) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: at(created), UID: "uid-" + "x", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"},
	}}
	c.Status.NodeName = node
	for condition, when := range true_ {
		c.Status.Conditions = append(c.Status.Conditions, status.Condition{Type: condition, Status: metav1.ConditionTrue, LastTransitionTime: at(when)})
	}
	return c
}

func TestStages(t *testing.T) {
	c := claim("general-a", 1, "ip-9", map[string]int{karpv1.ConditionTypeLaunched: 4, karpv1.ConditionTypeRegistered: 20, karpv1.ConditionTypeInitialized: 24})
	deleted := at(60)
	c.DeletionTimestamp = &deleted
	seen := Seen{
		Pod: pod(0, "ip-9", corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: at(0)},
			corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(26)}),
		Claim: c, ScaledAt: at(30).Time, Removed: at(70).Time, Terminated: at(72).Time,
	}
	var got []string
	for _, s := range Stages(seen) {
		got = append(got, string(s.Name)+" "+time.Duration(s.Seconds*int(time.Second)).String())
	}
	want := []string{
		"pod unschedulable 0s", "NodeClaim created 1s", "launched 4s", "registered 20s", "initialized 24s", "pod running 26s",
		"NodeClaim deleted 30s", "Node gone 40s", "terminated in EC2 42s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := Stages(Seen{}); got != nil {
		t.Error(got)
	}
}

func TestClaimOf(t *testing.T) {
	claims := []karpv1.NodeClaim{*claim("before", -5, "", nil), *claim("second", 3, "ip-3", nil), *claim("first", 1, "ip-1", nil)}
	if got := ClaimOf(pod(0, ""), claims); got.Name != "first" {
		t.Error(got.Name)
	}
	if got := ClaimOf(pod(0, "ip-3"), claims); got.Name != "second" {
		t.Error(got.Name)
	}
	if got := ClaimOf(pod(0, "ip-7"), claims); got != nil {
		t.Error(got.Name)
	}
}

func TestOfPool(t *testing.T) {
	message := "Failed to schedule pod, incompatible requirements, key a (NodePool=ba); did not tolerate taint (NodePool=b, taint=x)"
	for name, want := range map[string]string{"b": "did not tolerate taint (NodePool=b, taint=x)", "ba": "incompatible requirements, key a (NodePool=ba)", "c": message} {
		if got := OfPool(message, name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestTestable(t *testing.T) {
	object := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "NodePool", "metadata": map[string]any{"name": "a"}, "spec": spec}}
	}
	for name, test := range map[string]struct {
		pool *unstructured.Unstructured
		not  bool
	}{
		"dynamic": {object(map[string]any{}), false},
		"static":  {object(map[string]any{"replicas": int64(2)}), true},
		"auto mode": {object(map[string]any{"template": map[string]any{"spec": map[string]any{
			"nodeClassRef": map[string]any{"group": "eks.amazonaws.com"},
		}}}), true},
	} {
		if why := Testable(test.pool); (why != "") != test.not {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// world is a cluster in which objects appear as Karpenter and the kubelet would create them.
type world struct {
	client.Client
	mu  sync.Mutex
	now time.Time
	// script is called at each List of pods, with the number of calls.
	script func(w *world, n int)
	lists  int
}

func (w *world) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if _, is := list.(*corev1.PodList); is {
		w.mu.Lock()
		w.lists++
		w.now = w.now.Add(5 * time.Second)
		w.script(w, w.lists)
		w.mu.Unlock()
	}
	return w.Client.List(ctx, list, o...)
}

func (w *world) Now() time.Time { return w.now }

// ec2 lists the instance as running first, and in a state afterwards.
type ec2 struct {
	state  string
	listed bool
	// elsewhere means that the credentials are for another account.
	elsewhere bool
}

func (e *ec2) Instances(context.Context, cloud.Query) ([]cloud.Instance, error) {
	state := "running"
	if e.listed {
		state = e.state
	}
	if e.listed = true; e.elsewhere {
		return nil, nil
	}
	return []cloud.Instance{{ID: "i-1", State: state}}, nil
}

func newWorld(t *testing.T, script func(w *world, n int), objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, func(s *runtime.Scheme) error {
		s.AddKnownTypes(karpenterVersion, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{}, &karpv1.NodePool{}, &karpv1.NodePoolList{})
		metav1.AddToGroupVersion(s, karpenterVersion)
		return nil
	}} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.Name} }).
		Build()
	return &world{Client: c, now: began, script: script}
}

// definitions are a NodePool and its class, Ready.
func definitions(pool string) []client.Object {
	ready := []any{map[string]any{"type": "Ready", "status": "True", "observedGeneration": int64(0), "reason": "Ready", "lastTransitionTime": "2026-11-01T00:00:00Z"}}
	return []client.Object{
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": pool},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
			}}}, "status": map[string]any{"conditions": ready},
		}},
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": map[string]any{"name": "default"}, "status": map[string]any{"conditions": ready},
		}},
	}
}

func (w *world) runner(aws Instances, told *[]string) *Runner {
	return &Runner{
		Cluster: w, EC2: aws, Name: "prod", Namespace: "tests", Image: Image, Timeout: 10 * time.Minute, Poll: time.Millisecond, Now: w.Now,
		Progress: func(_, what string) { *told = append(*told, what) },
	}
}

// mine returns a running pod of the test, with the node that was launched for it.
func mine() []client.Object {
	c := claim("general-a", 6, "ip-9", map[string]int{karpv1.ConditionTypeLaunched: 7})
	c.Status.ProviderID = "aws:///eu-west-1a/i-1"
	return []client.Object{
		c, pod(5, "ip-9", corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(9)}),
	}
}

func (w *world) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := w.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) left(t *testing.T) (deployments, claims int) {
	t.Helper()
	d, c := &appsv1.DeploymentList{}, &karpv1.NodeClaimList{}
	if err := w.Client.List(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.List(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return len(d.Items), len(c.Items)
}

func TestANodeIsLaunchedAndTerminated(t *testing.T) {
	aws := &ec2{state: "terminated"}
	w := newWorld(t, func(w *world, n int) {
		if n == 2 {
			w.create(t, mine()...)
		}
	}, definitions("general")...)
	var told []string
	got := w.runner(aws, &told).Test(t.Context(), pool("general"))
	if got.State != Passed || got.Message != "" || got.Instance != "i-1" || got.Node != "ip-9" {
		t.Errorf("%+v", got)
	}
	if last := got.Stages[len(got.Stages)-1]; last.Name != Terminated {
		t.Error(last)
	}
	if d, c := w.left(t); d+c != 0 {
		t.Errorf("left: %d Deployments, %d NodeClaims", d, c)
	}
}

func TestAnInstanceThatStaysFails(t *testing.T) {
	w := newWorld(t, func(w *world, n int) {
		if n == 2 {
			w.create(t, mine()...)
		}
	}, definitions("general")...)
	aws := &ec2{state: "shutting-down"}
	var told []string
	r := w.runner(aws, &told)
	r.Now = func() time.Time { // EC2 alone is queried at the end, and time goes on
		w.mu.Lock()
		defer w.mu.Unlock()
		w.now = w.now.Add(time.Second)
		return w.now
	}
	got := r.Test(t.Context(), pool("general"))
	if got.State != Failed || !strings.Contains(got.Message, "instance i-1 is not terminated in EC2") {
		t.Errorf("%+v", got)
	}
}

func TestAnInstanceThatEC2DoesNotListFails(t *testing.T) {
	w := newWorld(t, func(w *world, n int) {
		if n == 2 {
			w.create(t, mine()...)
		}
	}, definitions("general")...)
	var told []string
	got := w.runner(&ec2{elsewhere: true}, &told).Test(t.Context(), pool("general"))
	if got.State != Failed || !strings.Contains(got.Message, "EC2 does not list instance i-1 of the running node") {
		t.Errorf("%+v", got)
	}
	if d, c := w.left(t); d+c != 0 {
		t.Errorf("left: %d Deployments, %d NodeClaims", d, c)
	}
}

func TestWhatBlocksTheLaunchIsReported(t *testing.T) {
	w := newWorld(t, func(w *world, n int) {
		if n == 1 {
			w.create(t, pod(5, ""), &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "tests"}, InvolvedObject: corev1.ObjectReference{Name: "p"}, Reason: "FailedScheduling",
				Source: corev1.EventSource{Component: "karpenter"}, Message: "Failed to schedule pod, node limits have been exhausted for nodepool (NodePool=general)",
			})
		}
	}, definitions("general")...)
	var told []string
	got := w.runner(&ec2{}, &told).Test(t.Context(), pool("general"))
	if got.State != Failed || got.Message != "node limits have been exhausted for nodepool (NodePool=general)" {
		t.Errorf("%+v", got)
	}
	if w.now.Sub(began) > 2*time.Minute {
		t.Errorf("ended after %s", w.now.Sub(began))
	}
	if diff := cmp.Diff([]string{got.Message}, told); diff != "" {
		t.Error(diff)
	}
	if d, _ := w.left(t); d != 0 {
		t.Error("the Deployment is left")
	}
}

func TestANodeWithPodsOfOthersStays(t *testing.T) {
	w := newWorld(t, func(w *world, n int) {
		if n == 2 {
			other := pod(8, "ip-9")
			other.Name, other.Labels = "other", nil
			w.create(t, append(mine(), other)...)
		}
	}, definitions("general")...)
	var told []string
	got := w.runner(&ec2{}, &told).Test(t.Context(), pool("general"))
	if got.State != Failed || !strings.Contains(got.Message, "1 other pods run on its node") {
		t.Errorf("%+v", got)
	}
	if d, c := w.left(t); d != 0 || c != 1 {
		t.Errorf("left: %d Deployments, %d NodeClaims", d, c)
	}
}

func TestAStoppedTestLeavesNothing(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	w := newWorld(t, func(w *world, n int) {
		switch n {
		case 2:
			c := mine()[0]
			w.create(t, c, pod(5, "ip-9"))
		case 3:
			stop()
		}
	}, definitions("general")...)
	var told []string
	got := w.runner(&ec2{}, &told).Test(ctx, pool("general"))
	if got.State != Failed || got.Message != "stopped" {
		t.Errorf("%+v", got)
	}
	if d, c := w.left(t); d+c != 0 {
		t.Errorf("left: %d Deployments, %d NodeClaims", d, c)
	}
}

func TestAnEmptyNodeThatExistedIsNoTest(t *testing.T) {
	w := newWorld(t, func(w *world, n int) {
		if n == 2 {
			w.create(t, claim("general-old", -60, "ip-9", nil), mine()[1])
		}
	}, definitions("general")...)
	var told []string
	got := w.runner(&ec2{}, &told).Test(t.Context(), pool("general"))
	if got.State != Failed || !strings.Contains(got.Message, "the pod runs on Node/ip-9, which ran no pods before") {
		t.Errorf("%+v", got)
	}
	if d, c := w.left(t); d != 0 || c != 1 {
		t.Errorf("left: %d Deployments, %d NodeClaims", d, c)
	}
}

func TestSweep(t *testing.T) {
	d := Workload(pool("general"), "tests", Image)
	d.Annotations = map[string]string{claimAnnotation: "general-a"}
	other := Workload(pool("other"), "tests", Image)
	other.Labels = nil
	w := newWorld(t, func(*world, int) {}, append(mine(), d, other)...)
	var told []string
	got, err := w.runner(&ec2{}, &told).Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"NodeClaim/general-a", "Deployment tests/plumbline-smoke-general"}, got); diff != "" {
		t.Error(diff)
	}
	if d, c := w.left(t); d != 1 || c != 0 {
		t.Errorf("left: %d Deployments, %d NodeClaims", d, c)
	}
}

// TestSweepDeletesOnlyNodeClaimsOfTests: any user who may create Deployments in the namespace can annotate one.
func TestSweepDeletesOnlyNodeClaimsOfTests(t *testing.T) {
	for name, change := range map[string]func(*appsv1.Deployment){
		"older than the Deployment": func(d *appsv1.Deployment) { d.CreationTimestamp = at(10) },
		"of another NodePool":       func(d *appsv1.Deployment) { d.Labels[Label] = hashOf("web") },
	} {
		t.Run(name, func(t *testing.T) {
			d := Workload(pool("general"), "tests", Image)
			d.Annotations = map[string]string{claimAnnotation: "general-a"}
			change(d)
			w := newWorld(t, func(*world, int) {}, append(mine(), d)...)
			var told []string
			if got, err := w.runner(&ec2{}, &told).Sweep(t.Context()); err != nil || len(got) != 1 {
				t.Errorf("deleted %v, %v", got, err)
			}
			if d, c := w.left(t); d != 0 || c != 1 {
				t.Errorf("left: %d Deployments, %d NodeClaims", d, c)
			}
		})
	}
}
