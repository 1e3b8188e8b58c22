package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/migrate"
)

// errKilled is what a call returns at which the run is killed.
var errKilled = errors.New("killed")

// world is a cluster, and its account: what terminates in AWS is gone from the cluster, and Deployments are what they should
// be at once.
type world struct {
	client.Client
	group     cloud.AutoScalingGroup
	tags      map[string]string
	addon     cloud.Addon
	instances map[string]string
	// budget refuses evictions as long as it is positive.
	budget int
	// hook is for how many answers a terminated instance still runs, as with a lifecycle hook, and terminations counts the
	// requests.
	hook, terminations int
	// calls counts requests that change something; the one with the number killAt fails before it has done anything, or, if
	// after is true, after that.
	calls, killAt int
	after         bool
	updates       []string
}

const schemaOfCoreDNS = `{"properties":{"affinity":{}}}`

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{tags: map[string]string{}, addon: cloud.Addon{Name: "coredns", ARN: "arn:coredns", Version: "v1", Tags: map[string]string{}}, instances: map[string]string{}}
	w.group = cloud.AutoScalingGroup{Name: "eks-web", Min: 1, Max: 5, Desired: 3, Tags: map[string]string{"kubernetes.io/cluster/prod": "owned", "enabled": "true"}}
	var objects []client.Object
	for i := range 5 {
		name, zone := fmt.Sprintf("node%d", i), string("ab"[i%2])
		n := node(name, zone)
		if i < 3 {
			w.group.Instances = append(w.group.Instances, cloud.GroupInstance{ID: "i-" + name, Zone: zone, State: "InService"})
			w.instances["i-"+name] = "running"
		}
		objects = append(objects, n)
	}
	add := func(namespace, name string, container corev1.Container, on ...string) {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
		d := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32(len(on)))}}
		d.Spec.Template.Spec.Containers = []corev1.Container{container}
		d.Status = appsv1.DeploymentStatus{Replicas: int32(len(on)), UpdatedReplicas: int32(len(on)), ReadyReplicas: int32(len(on))}
		objects = append(objects, d, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: name, UID: "x", Controller: new(true)}},
		}})
		for i, node := range on {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{"app": name},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: "y", Controller: new(true)}},
			}}
			p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
			objects = append(objects, p)
		}
	}
	add("kube-system", "cluster-autoscaler", corev1.Container{
		Image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1", Args: []string{"--node-group-auto-discovery=asg:tag=enabled"},
	}, "node3", "node4")
	add("kube-system", "coredns", corev1.Container{}, "node0", "node3")
	add("shop", "web", corev1.Container{}, "node0", "node1", "node2")
	objects = append(objects, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	})
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pools := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	scheme.AddKnownTypeWithName(pools.WithKind("NodePool"), &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(pools.WithKind("NodePoolList"), &unstructured.UnstructuredList{})
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{Patch: w.patch, SubResourceCreate: w.evict}).Build()
	return w
}

func node(name, zone string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
	n.Spec.ProviderID = "aws:///" + zone + "/i-" + name
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("20"),
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// change is a request that changes something, at which the run may be killed.
func (w *world) change(do func() error) error {
	w.calls++
	if w.calls == w.killAt && !w.after {
		return errKilled
	}
	err := do()
	if w.calls == w.killAt {
		return errKilled
	}
	return err
}

// patch patches, and makes a Deployment what it should be.
func (w *world) patch(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, o ...client.PatchOption) error {
	return w.change(func() error {
		if err := c.Patch(ctx, object, patch, o...); err != nil {
			return err
		}
		d, ok := object.(*appsv1.Deployment)
		if !ok {
			return nil
		}
		d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas = *d.Spec.Replicas, *d.Spec.Replicas, *d.Spec.Replicas
		return c.Status().Update(ctx, d)
	})
}

// evict evicts a pod to node4, unless the budget refuses.
func (w *world) evict(ctx context.Context, c client.Client, _ string, pod, _ client.Object, _ ...client.SubResourceCreateOption) error {
	return w.change(func() error {
		if w.budget > 0 && pod.GetNamespace() == "shop" {
			w.budget--
			return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		}
		p := &corev1.Pod{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), p); err != nil {
			return err
		}
		if err := c.Delete(ctx, p); err != nil {
			return err
		}
		moved := p.DeepCopy()
		moved.ResourceVersion, moved.UID, moved.Name, moved.Spec.NodeName = "", "", p.Name+"x", "node4"
		return c.Create(ctx, moved)
	})
}

func (w *world) NodeGroupSizes(context.Context, string) ([]cloud.NodeGroup, error) {
	return []cloud.NodeGroup{{Name: "web", ARN: "arn:web", Min: w.group.Min, Max: w.group.Max, Desired: w.group.Desired, AutoScalingGroups: []string{"eks-web"}, Tags: w.tags}}, nil
}

func (w *world) AutoScalingGroups(context.Context, []string, []string) ([]cloud.AutoScalingGroup, error) {
	return []cloud.AutoScalingGroup{w.group}, nil
}

func (w *world) FargateProfiles(context.Context, string) ([]cloud.FargateProfile, error) {
	return nil, nil
}

func (w *world) Addons(context.Context, string) ([]cloud.Addon, error) {
	return []cloud.Addon{w.addon}, nil
}

func (w *world) AddonSchema(context.Context, string, string) (string, error) {
	return schemaOfCoreDNS, nil
}

func (w *world) Instances(ctx context.Context, q cloud.Query) ([]cloud.Instance, error) {
	id := cloud.InstanceID(q.ProviderIDs[0])
	state := w.instances[id]
	if state == "shutting-down" { // the next answer is different
		w.instances[id] = "terminated"
	}
	if state == "hooked" {
		if state = "running"; w.hook == 0 {
			return nil, w.leave(ctx, id)
		}
		w.hook--
	}
	return []cloud.Instance{{ID: id, State: state}}, nil
}

func (w *world) Update(context.Context, string, string, string, string) (cloud.EKSUpdate, error) {
	return cloud.EKSUpdate{Status: "Successful"}, nil
}

func (w *world) SetNodeGroupSizes(ctx context.Context, _, _ string, s cloud.Sizes) (string, error) {
	return "u", w.change(func() error {
		w.updates = append(w.updates, fmt.Sprint(s))
		w.group.Min, w.group.Max, w.group.Desired = s.Min, s.Max, s.Desired
		for len(w.group.Instances) < s.Desired { // with the Node at once
			name := fmt.Sprintf("new%d", len(w.instances))
			w.group.Instances = append(w.group.Instances, cloud.GroupInstance{ID: "i-" + name})
			w.instances["i-"+name] = "running"
			if err := w.Create(ctx, node(name, "a")); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) UpdateAddon(ctx context.Context, _, _, values string) (string, error) {
	return "u", w.change(func() error {
		w.addon.Configuration = values
		var parsed struct{ Affinity *corev1.Affinity }
		if err := yaml.Unmarshal([]byte(values), &parsed); err != nil {
			return err
		}
		d := &appsv1.Deployment{}
		if err := w.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "coredns"}, d); err != nil {
			return err
		}
		d.Spec.Template.Spec.Affinity = parsed.Affinity
		return w.Client.Update(ctx, d)
	})
}

func (w *world) TagEKS(_ context.Context, arn, key, value string) error {
	return w.change(func() error {
		tags := w.tags
		if arn == w.addon.ARN {
			tags = w.addon.Tags
		}
		if tags[key] = value; value == "" {
			delete(tags, key)
		}
		return nil
	})
}

func (w *world) SetGroupSizes(context.Context, string, cloud.Sizes) error {
	return errors.ErrUnsupported
}

func (w *world) TagGroup(context.Context, string, string, string) error { return errors.ErrUnsupported }

func (w *world) TerminateInGroup(ctx context.Context, instance string) error {
	return w.change(func() error {
		i := slices.IndexFunc(w.group.Instances, func(one cloud.GroupInstance) bool { return one.ID == instance })
		if i < 0 {
			return nil
		}
		if w.group.Desired == w.group.Min {
			return errors.New("desiredSize equals minSize")
		}
		w.terminations++
		w.group.Desired--
		if w.hook > 0 {
			w.instances[instance], w.group.Instances[i].State = "hooked", "Terminating:Wait"
			return nil
		}
		return w.leave(ctx, instance)
	})
}

// leave makes an instance leave its group and the cluster.
func (w *world) leave(ctx context.Context, instance string) error {
	w.group.Instances = slices.DeleteFunc(w.group.Instances, func(one cloud.GroupInstance) bool { return one.ID == instance })
	w.instances[instance] = "shutting-down"
	return w.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: strings.TrimPrefix(instance, "i-")}})
}

// mover returns a Mover of the world, with the words that it says.
func (w *world) mover(said *[]string) *Mover {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	return &Mover{
		Cluster: w.Client, AWS: w, Name: "prod", Poll: time.Millisecond, Timeout: time.Hour, Test: func(context.Context) error { return nil },
		Say: func(what string) { *said = append(*said, what) }, Now: func() time.Time { now = now.Add(time.Minute); return now },
	}
}

// run performs steps until nothing is left, or there is an error.
func (w *world) run(t *testing.T, back bool) (said []string, err error) {
	t.Helper()
	m, tested := w.mover(&said), false
	for range 100 {
		f, err := m.Read(t.Context())
		if err != nil {
			return said, err
		}
		plan, err := migrate.Decide(migrate.Wish{Tested: tested}, f)
		if back {
			plan, err = migrate.Back(f)
		}
		if err != nil {
			return said, err
		}
		step := plan.Next()
		if step == nil {
			return said, nil
		}
		if err := m.Do(t.Context(), step); err != nil {
			return said, err
		}
		tested = tested || step.Action == migrate.Test
	}
	t.Fatalf("no end: %v", said)
	return nil, nil
}

// end is what a migration leaves.
type end struct {
	Nodes     []string
	Sizes     string
	Replicas  int32
	Before    string
	Tags      map[string]string
	Values    string
	AddonTags map[string]string
	Pinned    bool
	OnNode4   int
}

func (w *world) end(t *testing.T) end {
	t.Helper()
	nodes, pods, scaler, dns := &corev1.NodeList{}, &corev1.PodList{}, &appsv1.Deployment{}, &appsv1.Deployment{}
	err := errors.Join(w.List(t.Context(), nodes), w.List(t.Context(), pods, client.InNamespace("shop")),
		w.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "cluster-autoscaler"}, scaler),
		w.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "coredns"}, dns))
	if err != nil {
		t.Fatal(err)
	}
	e := end{
		Sizes: fmt.Sprint(w.group.Min, w.group.Desired, w.group.Max), Replicas: *scaler.Spec.Replicas, Before: scaler.Annotations[migrate.ReplicasAnnotation],
		Tags: w.tags, Values: w.addon.Configuration, AddonTags: w.addon.Tags, Pinned: migrate.IsPinned(dns.Spec.Template.Spec.Affinity),
	}
	for _, n := range nodes.Items {
		name := n.Name
		if n.Spec.Unschedulable || n.Annotations[migrate.CordonAnnotation] != "" {
			name += " cordoned"
		}
		e.Nodes = append(e.Nodes, name)
	}
	for _, p := range pods.Items {
		if p.Spec.NodeName == "node4" {
			e.OnNode4++
		}
	}
	return e
}

const pinnedValues = `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"karpenter.sh/nodepool","operator":"DoesNotExist"}]}]}}}}`

func migrated() end {
	return end{
		Nodes: []string{"node3", "node4"}, Sizes: "0 0 5", Before: "2", Tags: map[string]string{migrate.SizesTag: "min=1 max=5 desired=3 keep=0"},
		Values: pinnedValues, AddonTags: map[string]string{migrate.PinAnnotation: migrate.Added}, Pinned: true, OnNode4: 3,
	}
}

func TestMigrateAndBack(t *testing.T) {
	w := newWorld(t)
	w.budget = 4
	said, err := w.run(t, false)
	if diff := cmp.Diff(migrated(), w.end(t)); diff != "" || err != nil {
		t.Fatalf("%v, said %s (-want +got):\n%s", err, strings.Join(said, "\n"), diff)
	}
	all := strings.Join(said, "\n")
	for _, want := range []string{
		"waiting for PodDisruptionBudget shop/web (0 disruptions allowed", "Node/node0: EC2 has terminated i-node0; Deployment kube-system/coredns runs on",
		"Deployment shop/web runs on Node/node",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in what it said:\n%s", want, all)
		}
	}
	if _, err := w.run(t, true); err != nil {
		t.Fatal(err)
	}
	want := end{
		Nodes: []string{"new3", "new4", "new5", "node3", "node4"}, Sizes: "1 3 5", Replicas: 2, Tags: map[string]string{}, Values: "{}",
		AddonTags: map[string]string{}, OnNode4: 3,
	}
	if diff := cmp.Diff(want, w.end(t)); diff != "" {
		t.Errorf("back (-want +got):\n%s", diff)
	}
}

// TestKilledAnywhere: a run that is killed after any request, or before the first one, continues to the same end, and so does
// its reversal.
func TestKilledAnywhere(t *testing.T) {
	for n := 0; ; n++ {
		w := newWorld(t)
		w.killAt, w.after = max(n, 1), n > 0
		_, err := w.run(t, false)
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatalf("killed at %d: %v", n, err)
		}
		killed := err != nil
		said, err := w.run(t, false)
		if diff := cmp.Diff(migrated(), w.end(t)); diff != "" || err != nil {
			t.Fatalf("killed at %d: %v, said %s (-want +got):\n%s", n, err, strings.Join(said, "\n"), diff)
		}
		if !killed {
			t.Logf("%d requests", n-1)
			break
		}
	}
	for n := 1; ; n++ {
		w := newWorld(t)
		if _, err := w.run(t, false); err != nil {
			t.Fatal(err)
		}
		w.calls, w.killAt, w.after = 0, n, true
		_, err := w.run(t, true)
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatalf("back, killed at %d: %v", n, err)
		}
		killed := err != nil
		if _, err := w.run(t, true); err != nil {
			t.Fatal(err)
		}
		got := w.end(t)
		if got.Sizes != "1 3 5" || got.Replicas != 2 || got.Before != "" || got.Pinned || len(got.Tags)+len(got.AddonTags) > 0 {
			t.Fatalf("back, killed at %d: %+v", n, got)
		}
		if !killed {
			t.Logf("%d requests of a reversal", n-1)
			return
		}
	}
}

// TestLifecycleHook: while a hook runs, EC2 reports a running instance; its termination is not requested again, which would
// lower the group once more.
func TestLifecycleHook(t *testing.T) {
	w := newWorld(t)
	w.hook = 3
	if _, err := w.run(t, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(migrated(), w.end(t)); diff != "" || w.terminations != 3 {
		t.Errorf("%d terminations (-want +got):\n%s", w.terminations, diff)
	}
}

// TestStalled: a budget that never allows a disruption ends the run, with its name.
func TestStalled(t *testing.T) {
	w := newWorld(t)
	w.budget = 1 << 20
	_, err := w.run(t, false)
	var stalled *StalledError
	if !errors.As(err, &stalled) || !strings.Contains(err.Error(), "PodDisruptionBudget shop/web") || !strings.Contains(err.Error(), "--back") {
		t.Errorf("%v", err)
	}
	if w.group.Desired != 3 {
		t.Errorf("the group has %d", w.group.Desired)
	}
}

// TestRefusedUpdate: an update of EKS in progress is waited for, and one that fails is an error.
func TestRefusedUpdate(t *testing.T) {
	var said []string
	m := newWorld(t).mover(&said)
	tries := 0
	err := m.update(t.Context(), "nodegroup/web", "web", "", func(context.Context) (string, error) {
		if tries++; tries < 3 {
			return "", &cloud.AnswerError{Code: "ResourceInUseException"}
		}
		return "u", nil
	})
	if err != nil || tries != 3 || !strings.Contains(strings.Join(said, ""), "another update of EKS") {
		t.Errorf("%v after %d, said %v", err, tries, said)
	}
}
