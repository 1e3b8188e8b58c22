package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// newScheme returns the types that Observe reads.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	karpenter := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	scheme.AddKnownTypes(karpenter, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	metav1.AddToGroupVersion(scheme, karpenter)
	return scheme
}

// server is a cluster that records what is read from it.
type server struct {
	client.Client
	read []string
	// fails returns the error of reading an object or a list; nil if there is none.
	fails func(what string) error
}

func newServer(objects ...client.Object) *server {
	s := &server{fails: func(string) error { return nil }}
	s.Client = fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				what := fmt.Sprintf("get %T %s", object, key.Name)
				if made, ok := object.(*metav1.PartialObjectMetadata); ok {
					what = fmt.Sprintf("get %s %s", made.Kind, key.Name)
				}
				s.read = append(s.read, what)
				if err := s.fails(what); err != nil {
					return err
				}
				return c.Get(ctx, key, object, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				var o client.ListOptions
				o.ApplyOptions(options)
				what := "list pods of " + o.Namespace
				if o.FieldSelector != nil {
					what = "list pods on " + o.FieldSelector.String()
				}
				s.read = append(s.read, what)
				if err := s.fails(what); err != nil {
					return err
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
	return s
}

// aNode returns a Ready Node; claim is the name of its NodeClaim, if it has one.
func aNode(name, claim string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: at(0), Labels: map[string]string{corev1.LabelInstanceTypeStable: "g6.xlarge"},
	}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: at(0)}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	if claim != "" {
		n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claim}}
	}
	return n
}

func gpu(n *corev1.Node) *corev1.Node {
	n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("1")
	return n
}

func aClaim(name string) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	claim.Spec.Resources.Requests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	claim.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), corev1.ResourceCPU: resource.MustParse("4")}
	return claim
}

func train(available corev1.ConditionStatus) *appsv1.Deployment {
	deadline := int32(600)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: "train"}}
	d.Spec.ProgressDeadlineSeconds = &deadline
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: available, LastTransitionTime: at(-10)}}
	return d
}

func replicaSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: "train-5d4f", CreationTimestamp: at(-10)}}
}

func objects[T client.Object](lists ...[]T) []client.Object {
	var all []client.Object
	for _, list := range lists {
		for _, object := range list {
			all = append(all, object)
		}
	}
	return all
}

var gpuWave = Wave{Pool: "gpu", Began: began, New: []string{"new"}, Old: []string{"old"}}

// judged observes a wave and judges it.
func judged(t *testing.T, s *server, wave Wave) Verdict {
	t.Helper()
	seen, err := Observe(t.Context(), s, wave, now)
	if err != nil {
		t.Fatal(err)
	}
	return Judge(seen, now)
}

// TestObserve: pods that fail are compared with those of the same template on old nodes only.
func TestObserve(t *testing.T) {
	s := newServer(objects(
		times(3, "n", "new", wants("nvidia.com/gpu"), crashes), times(12, "o", "old", wants("nvidia.com/gpu")),
		times(2, "p", "old", template("77aa"), crashes),
		times(2, "q", "other", crashes), // of another pool, or of an earlier wave
	)...)
	for _, o := range []client.Object{aNode("new", "claim"), gpu(aNode("old", "")), aNode("other", ""), aClaim("claim"), train("True"), replicaSet()} {
		if err := s.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	const want = "3 of 3 pods of gpu/train fail on the new node, 0 of 12 on old ones: nvidia.com/gpu is 0"
	if got := judged(t, s, gpuWave); got.State != Bad || got.Message != want {
		t.Errorf("%s: %q, want %q", got.State, got.Message, want)
	}
}

// TestObserveFailedBefore: a Deployment that was not Available before the wave does not count.
func TestObserveFailedBefore(t *testing.T) {
	s := newServer(append(objects(times(1, "n", "new", crashes)), aNode("new", ""), train("False"), replicaSet())...)
	if got := judged(t, s, gpuWave); got.State != Inconclusive || got.Workloads[0].Excuse != failedBefore {
		t.Errorf("%s: %q", got.State, got.Message)
	}
}

// TestObserveNewTemplate: when a pod template was created is read from its ReplicaSet or ControllerRevision.
func TestObserveNewTemplate(t *testing.T) {
	for name, c := range map[string]struct {
		pod    podOption
		object client.Object
	}{
		"Deployment": {template("5d4f"), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "train-5d4f"}}},
		"DaemonSet":  {daemonSet, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "agent-7c"}}},
		"StatefulSet": {
			owned("StatefulSet", "db", map[string]string{"controller-revision-hash": "db-66"}),
			&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "db-66"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for age, want := range map[int]State{-1: Bad, 1: Inconclusive} {
				c.object.SetResourceVersion("")
				c.object.SetNamespace("gpu")
				c.object.SetCreationTimestamp(metav1.NewTime(began.AddDate(0, 0, age)))
				s := newServer(newPod("n", "new", c.pod, crashes), aNode("new", ""), c.object)
				if got := judged(t, s, gpuWave); got.State != want {
					t.Errorf("%d days after the wave began: %s: %q, want %s", age, got.State, got.Message, want)
				}
			}
		})
	}
}

// TestObserveReadsLittle: as long as all pods work, only nodes and their pods are read.
func TestObserveReadsLittle(t *testing.T) {
	s := newServer(append(objects(times(3, "n", "new"), times(3, "o", "old")), aNode("new", "claim"), aNode("old", ""), aClaim("claim"))...)
	judged(t, s, gpuWave)
	want := []string{"get *v1.Node new", "get *v1.NodeClaim claim", "list pods on spec.nodeName=new", "get *v1.Node old"}
	if !slices.Equal(s.read, want) {
		t.Errorf("read %q, want %q", s.read, want)
	}
}

// TestObserveNodesReadsLittle: what fails on nodes that are being replaced is found without pods on other nodes.
func TestObserveNodesReadsLittle(t *testing.T) {
	s := newServer(append(objects(times(3, "n", "new", crashes), times(3, "o", "old")), aNode("new", ""), aNode("old", ""), train("True"), replicaSet())...)
	seen, err := ObserveNodes(t.Context(), s, []string{"new"}, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if got := seen.Failing(nil, now); !slices.Equal(got, []string{"Deployment gpu/train 5d4f"}) {
		t.Errorf("failing: %q", got)
	}
	if lists := slices.DeleteFunc(slices.Clone(s.read), func(r string) bool { return !strings.HasPrefix(r, "list") }); len(lists) != 1 {
		t.Errorf("lists: %q", lists)
	}
}

// TestObserveNodesWithOld: the pods of a workload that fails on nodes that are being replaced are compared with those on
// old nodes, not with those on new ones.
func TestObserveNodesWithOld(t *testing.T) {
	s := newServer(append(objects(times(1, "n", "new", crashes), times(3, "o", "old"), times(9, "l", "launched", crashes),
		times(1, "d", "new", daemonSet, crashes), times(3, "e", "old", daemonSet)),
		aNode("new", ""), aNode("old", ""), aNode("launched", ""), train("True"), replicaSet())...)
	seen, err := ObserveNodes(t.Context(), s, []string{"new"}, []string{"old"}, now)
	if err != nil {
		t.Fatal(err)
	}
	if got := seen.Failing(nil, now); !slices.Equal(got, []string{"DaemonSet gpu/agent 7c 25%", "Deployment gpu/train 5d4f 25%"}) {
		t.Errorf("failing: %q", got)
	}
}

// TestObserveDaemonSet: pods of DaemonSets are compared with those on a sample of old nodes.
func TestObserveDaemonSet(t *testing.T) {
	wave := gpuWave
	list := []client.Object{aNode("new", ""), newPod("n", "new", daemonSet, unready(0))}
	wave.Old = nil
	for i := range 100 {
		name := fmt.Sprintf("old%d", i)
		wave.Old = append(wave.Old, name)
		list = append(list, aNode(name, ""), newPod("p-"+name, name, daemonSet))
	}
	s := newServer(list...)
	const want = "1 of 1 pods of gpu/agent fail on the new node, 0 of 16 on old ones: container app is not Ready"
	if got := judged(t, s, wave); got.State != Bad || got.Message != want {
		t.Errorf("%s: %q, want %q", got.State, got.Message, want)
	}
	for _, what := range s.read {
		if strings.HasPrefix(what, "list pods of") {
			t.Errorf("%s: a DaemonSet has a pod on each node of the cluster", what)
		}
	}
}

// TestObserveLastWave: once no old node is left, pods are compared with those on the nodes of other pools.
func TestObserveLastWave(t *testing.T) {
	wave := gpuWave
	wave.Old = nil
	for name, owner := range map[string]podOption{"train": template("5d4f"), "agent": daemonSet} {
		for state, c := range map[string]struct {
			other podOption
			want  State
			of    string
		}{"works": {owner, Bad, "0 of 1"}, "fails": {crashes, Inconclusive, "1 of 1"}} {
			got := judged(t, newServer(aNode("new", ""), newPod("n", "new", owner, crashes), newPod("o", "other", owner, c.other)), wave)
			want := "1 of 1 pods of gpu/" + name + " fail on the new node, " + c.of + " on other nodes"
			if name == "agent" && c.want == Inconclusive {
				want = "no pods except those of DaemonSets"
			}
			if got.State != c.want || !strings.HasPrefix(got.Message, want) {
				t.Errorf("%s %s elsewhere: %s: %q, want %q", name, state, got.State, got.Message, want)
			}
		}
	}
}

// TestObserveGone: Nodes and NodeClaims that no longer exist are no error.
func TestObserveGone(t *testing.T) {
	wave := gpuWave
	wave.New = []string{"gone", "new"}
	got := judged(t, newServer(newPod("n", "new"), aNode("new", "gone")), wave)
	if want := "1 of 1 pods work on the new node; 1 of 2 nodes of the wave no longer exist"; got.State != Good || got.Message != want {
		t.Errorf("%s: %q, want %q", got.State, got.Message, want)
	}
}

// TestObserveErrors: what cannot be read makes a wave impossible to judge, except what a role does not allow to read
// about controllers.
func TestObserveErrors(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "train", errors.New("no"))
	for what, c := range map[string]struct {
		err  error
		want State
	}{
		"get *v1.Node":        {err: errors.New("down")},
		"get *v1.NodeClaim":   {err: errors.New("down")},
		"list pods on":        {err: errors.New("down")},
		"list pods of gpu":    {err: errors.New("down")},
		"get *v1.Deployment":  {err: errors.New("down")},
		"get ReplicaSet":      {err: errors.New("down")},
		"get *v1.Deployment ": {err: forbidden, want: Bad},
		"get ReplicaSet ":     {err: forbidden, want: Bad},
	} {
		t.Run(what, func(t *testing.T) {
			s := newServer(newPod("n", "new", crashes), aNode("new", "claim"), aClaim("claim"))
			s.fails = func(read string) error {
				if strings.HasPrefix(read, what) {
					return c.err
				}
				return nil
			}
			seen, err := Observe(t.Context(), s, gpuWave, now)
			if got := Judge(seen, now).State; (err != nil) == (c.want != "") || c.want != "" && got != c.want {
				t.Errorf("%s, %v; want %q", got, err, c.want)
			}
		})
	}
}

// TestObserveTooMany: workloads beyond the limit are not compared.
func TestObserveTooMany(t *testing.T) {
	seen := observed(nil)
	for i := range maxOwners + 1 {
		p, _ := podOf(newPod("n", "new", template(fmt.Sprintf("%03d", i)), crashes), true)
		seen.Pods = append(seen.Pods, p)
	}
	o := newObserver(newServer(), gpuWave)
	if err := o.compare(t.Context(), seen.suspects(func(_ Key, on []*Pod) int { return seen.tally(on, now).Failing })); err != nil {
		t.Fatal(err)
	}
	skipped := 0
	for _, owner := range o.seen.Owners {
		if owner.Skipped {
			skipped++
		}
	}
	if skipped != 1 || len(o.seen.Owners) != maxOwners+1 {
		t.Errorf("%d of %d workloads are not compared, want 1 of %d", skipped, len(o.seen.Owners), maxOwners+1)
	}
}

// TestObservePages: pods are read page by page, and no more than needed.
func TestObservePages(t *testing.T) {
	read := 0
	pages := reader{list: func(list *corev1.PodList, o client.ListOptions) {
		if o.Limit != page {
			t.Errorf("a page of %d", o.Limit)
		}
		for i := range page {
			list.Items = append(list.Items, *newPod(fmt.Sprintf("p%d-%d", read, i), "elsewhere"))
		}
		read += page
		list.Continue = "more"
	}}
	o := newObserver(pages, gpuWave)
	skipped, err := o.compareOne(t.Context(), suspect{key: keyOf(newPod("n", "new")), labels: map[string]string{"pod-template-hash": "5d4f"}})
	if err != nil || !skipped || read != maxOfOwner || o.left != maxCompared-maxOfOwner {
		t.Errorf("skipped %t after %d pods, %d left: %v", skipped, read, o.left, err)
	}
}

// reader answers lists of pods.
type reader struct {
	client.Reader
	list func(*corev1.PodList, client.ListOptions)
}

func (r reader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	r.list(list.(*corev1.PodList), o)
	return nil
}

// TestLabels: pods of other controllers than Kubernetes' own are selected by the labels that all of them have.
func TestLabels(t *testing.T) {
	seen := Observation{}
	key := Key{Kind: "RayCluster", Namespace: "gpu", Name: "ray"}
	seen.label(key, map[string]string{"app": "ray", "group": "workers", "rank": "1"})
	seen.label(key, map[string]string{"app": "ray", "group": "workers", "rank": "2", "statefulset.kubernetes.io/pod-name": "x"})
	if got := fmt.Sprint(seen.labels[key]); got != "map[app:ray group:workers]" {
		t.Errorf("labels %s", got)
	}
}

// TestSample: the same nodes, from the whole pool.
func TestSample(t *testing.T) {
	if got := sample([]string{"d", "b", "c", "a", "f", "e"}, 3); !slices.Equal(got, []string{"a", "c", "e"}) {
		t.Errorf("sample %q", got)
	}
}
