package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// fakeCluster is a cluster with a pool, its class and one NodeClaim.
func fakeCluster(t *testing.T) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := cluster.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range render.Kinds() {
		scheme.AddKnownTypeWithName(kind.GVK, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(kind.GVK.GroupVersion().WithKind(kind.GVK.Kind+"List"), &unstructured.UnstructuredList{})
	}
	class := &unstructured.Unstructured{}
	class.SetAPIVersion("karpenter.k8s.aws/v1")
	class.SetKind(render.EC2NodeClass)
	class.SetName("default")
	n := claim()
	n.DeletionTimestamp = nil
	n.ResourceVersion, n.ManagedFields = "", nil
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(pool(), class, n)
}

func TestLive(t *testing.T) {
	live, err := cluster.Live(t.Context(), fakeCluster(t).Build())
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []render.Ref{{Kind: render.NodePool, Name: "general"}, {Kind: render.EC2NodeClass, Name: "default"}} {
		if live.Objects[ref] == nil {
			t.Errorf("%s is not among %d objects", ref, len(live.Objects))
		}
	}
	want := []plan.NodeClaim{{
		Name: "general-x7k2p", UID: "5f6d2f5e-7a51-4f6f-9f5b-0c1f0b9d8a11", Pool: "general", PoolUID: "c2e6b3b0-5b0e-4d50-8c9e-7d7f3c1a2b33", Class: "default",
		ProviderID: "aws:///eu-west-1a/i-0123456789abcdef0", Image: "ami-0123456789abcdef0", Node: "ip-10-0-0-1.ec2.internal",
		Labels: plan.PackLabels(claim().Labels), Drifted: true, DriftReason: "Drifted",
		Created: claim().CreationTimestamp.Time, Launch: 95 * time.Second, Initialized: true,
	}}
	if diff := cmp.Diff(want, live.NodeClaims); diff != "" {
		t.Error(diff)
	}
}

// TestLiveBesideAutoMode: of what AWS manages only the names of NodePools are known, and a class of AWS is none of
// Karpenter's of the same name.
func TestLiveBesideAutoMode(t *testing.T) {
	theirs := claim()
	theirs.Name, theirs.UID, theirs.ResourceVersion, theirs.ManagedFields, theirs.DeletionTimestamp = "system-abcde", "other", "", nil, nil
	theirs.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "eks.amazonaws.com", Kind: "NodeClass", Name: "default"}
	c := fakeCluster(t).Build()
	for _, object := range []client.Object{theirs, autoModePool("system"), autoModePool("general-purpose")} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	live, err := cluster.Live(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"general-purpose", "system"}, live.AutoMode); diff != "" {
		t.Errorf("pools of Auto Mode (-want +got):\n%s", diff)
	}
	if len(live.Objects) != 2 || len(live.NodeClaims) != 1 || live.NodeClaims[0].Name != "general-x7k2p" {
		t.Errorf("%d objects, and NodeClaims %+v", len(live.Objects), live.NodeClaims)
	}
	claims, err := cluster.Claims(t.Context(), c)
	if err != nil || len(claims) != 1 || claims[0].NodeClaim != "general-x7k2p" {
		t.Errorf("Claims() = %+v, %v", claims, err)
	}
}

func autoModePool(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"nodeClassRef": map[string]any{"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
	}}}}}
	object.SetAPIVersion("karpenter.sh/v1")
	object.SetKind(render.NodePool)
	object.SetName(name)
	return object
}

// TestLiveWithoutOptionalKinds: a version of Karpenter may not serve them. Objects of one that is served are read, each
// by its namespace and name.
func TestLiveWithoutOptionalKinds(t *testing.T) {
	var read []string
	serves := map[string]bool{}
	funcs := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		kind := list.GetObjectKind().GroupVersionKind()
		if known, _ := render.KindOf(kind.Kind); known.Optional() {
			read = append(read, kind.Kind)
			if !serves[kind.Kind] {
				return &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
			}
		}
		return c.List(ctx, list, opts...)
	}}
	buffer := render.Ref{Kind: render.CapacityBuffer, Name: "shop/headroom"}
	reader := fakeCluster(t).WithObjects(buffer.Empty()).WithInterceptorFuncs(funcs).Build()
	live, err := cluster.Live(t.Context(), reader)
	if err != nil || len(live.Objects) != 2 || len(read) != 2 {
		t.Fatalf("%d objects, read %v: %v", len(live.Objects), read, err)
	}
	serves[render.CapacityBuffer] = true
	if live, err = cluster.Live(t.Context(), reader); err != nil || live.Objects[buffer] == nil {
		t.Errorf("objects %v: %v", live.Objects, err)
	}
}

// TestAnOptionalKindThatMayNotBeRead: a user with a role of an older version can plan a Set without objects of that
// kind, and no other one.
func TestAnOptionalKindThatMayNotBeRead(t *testing.T) {
	funcs := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if list.GetObjectKind().GroupVersionKind().Kind == render.NodeOverlay {
			return apierrors.NewForbidden(schema.GroupResource{Group: "karpenter.sh", Resource: "nodeoverlays"}, "", errors.New("no role"))
		}
		return c.List(ctx, list, opts...)
	}}
	live, err := cluster.Live(t.Context(), fakeCluster(t).WithInterceptorFuncs(funcs).Build())
	if err != nil || len(live.Objects) != 2 || len(live.Unreadable) != 1 {
		t.Fatalf("%d objects, unreadable %v: %v", len(live.Objects), live.Unreadable, err)
	}
	for kind, fails := range map[string]bool{render.NodeOverlay: true, render.NodePool: false} {
		ref := render.Ref{Kind: kind, Name: "a"}
		set := &render.Set{Objects: []render.Object{{Ref: ref, Desired: ref.Empty(), Defaulted: ref.Empty()}}}
		_, err := plan.Make(t.Context(), set, live, plan.Policy{Offline: true}, nil)
		if (err != nil) != fails || fails && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestLiveFailsWhole: with a partial result, entries would look deleted.
func TestLiveFailsWhole(t *testing.T) {
	for _, kind := range []string{"NodePool", "EC2NodeClass", "NodeClaim"} {
		t.Run(kind, func(t *testing.T) {
			refuse := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				_, claims := list.(*karpv1.NodeClaimList)
				if list.GetObjectKind().GroupVersionKind().Kind == kind || (claims && kind == "NodeClaim") {
					return errors.New("the cache is closed")
				}
				return c.List(ctx, list, opts...)
			}}
			_, err := cluster.Live(t.Context(), fakeCluster(t).WithInterceptorFuncs(refuse).Build())
			if err == nil || !strings.Contains(err.Error(), "read the "+kind+"s") {
				t.Errorf("err = %v", err)
			}
		})
	}
}

// TestRewritten: each edit of a chart's object is admitted, and no change of a status.
func TestRewritten(t *testing.T) {
	role := func(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		object := cluster.Charted(cluster.ChartedKinds()[3])
		object.Name, object.UID, object.ResourceVersion = "karpenter-core", "1", "7"
		object.Labels = map[string]string{"app.kubernetes.io/name": "karpenter"}
		change(object)
		return object
	}
	cases := map[string]struct {
		before, after func(*metav1.PartialObjectMetadata)
		want          bool
	}{
		"a kind without generations was written": {func(*metav1.PartialObjectMetadata) {}, func(o *metav1.PartialObjectMetadata) { o.ResourceVersion = "8" }, true},
		"a status was written":                   {func(o *metav1.PartialObjectMetadata) { o.Generation = 1 }, func(o *metav1.PartialObjectMetadata) { o.Generation, o.ResourceVersion = 1, "8" }, false},
		"a spec was":                             {func(o *metav1.PartialObjectMetadata) { o.Generation = 1 }, func(o *metav1.PartialObjectMetadata) { o.Generation = 2 }, true},
		"an annotation was":                      {func(o *metav1.PartialObjectMetadata) { o.Generation = 1 }, func(o *metav1.PartialObjectMetadata) { o.Generation, o.Annotations = 1, map[string]string{"a": "b"} }, true},
		"it was made anew":                       {func(*metav1.PartialObjectMetadata) {}, func(o *metav1.PartialObjectMetadata) { o.UID = "2" }, true},
		"it was sent once more":                  {func(*metav1.PartialObjectMetadata) {}, func(*metav1.PartialObjectMetadata) {}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cluster.Rewritten().Update(event.UpdateEvent{ObjectOld: role(c.before), ObjectNew: role(c.after)}); got != c.want {
				t.Errorf("heard of: %t, want %t", got, c.want)
			}
		})
	}
}

// TestTrimCharted: of each chart object the cache keeps a few hundred bytes, and it keeps only Karpenter's.
func TestTrimCharted(t *testing.T) {
	options := cluster.CacheOptions(&cluster.Refusals{})
	seen := 0
	for of, rule := range options.ByObject {
		full, ok := of.(*metav1.PartialObjectMetadata)
		if !ok {
			continue
		}
		seen++
		if rule.Label.Matches(labels.Set{"app.kubernetes.io/name": "coredns"}) || !rule.Label.Matches(labels.Set(cluster.ControllerLabels())) {
			t.Errorf("the cache selects each %s by %s", full.Kind, rule.Label)
		}
		full.Name, full.ResourceVersion, full.Labels = "karpenter", "7", cluster.ControllerLabels()
		full.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 3000), "meta.helm.sh/release-name": "karpenter"}
		full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "plumbline", FieldsV1: metav1.NewFieldsV1(`{"f:rules":"` + strings.Repeat("x", 3000) + `"}`)}}
		trimmed, err := rule.Transform(full)
		if err != nil {
			t.Fatal(err)
		}
		kept := trimmed.(*metav1.PartialObjectMetadata)
		if got := size(t, kept); got > 400 || kept.ResourceVersion != "7" || kept.Annotations["meta.helm.sh/release-name"] != "karpenter" {
			t.Errorf("a %s is kept with %d bytes: %+v", full.Kind, got, kept)
		}
	}
	if want := len(cluster.ChartedKinds()); seen != want {
		t.Errorf("%d kinds are selected, want %d", seen, want)
	}
}

// TestLoads: the load is read for the NodeClaims that a plan asks for, and their pods are counted if it needs that.
// Pods of DaemonSets, and terminated pods, do not count.
func TestLoads(t *testing.T) {
	initialized, event := time.Unix(1000, 0), time.Unix(2000, 0)
	claim := func(name, pool string, change func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{karpv1.NodePoolLabelKey: pool}}}
		c.Status.NodeName = "node-" + name
		c.Status.Conditions = []status.Condition{{Type: karpv1.ConditionTypeInitialized, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(initialized)}}
		if change != nil {
			change(c)
		}
		return c
	}
	pod := func(name, node, owner string, phase corev1.PodPhase) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "a", Controller: ptr.To(true)}}
		return p
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), cluster.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		claim("idle", "a", func(c *karpv1.NodeClaim) {
			c.Status.Conditions = append(c.Status.Conditions, status.Condition{Type: karpv1.ConditionTypeConsolidatable, Status: metav1.ConditionTrue})
		}),
		claim("busy", "a", func(c *karpv1.NodeClaim) { c.Status.LastPodEventTime = metav1.NewTime(event) }),
		claim("unasked", "a", nil), claim("elsewhere", "b", nil),
		pod("1", "node-busy", "ReplicaSet", corev1.PodRunning), pod("2", "node-busy", "ReplicaSet", corev1.PodRunning),
		pod("3", "node-idle", "DaemonSet", corev1.PodRunning), pod("4", "node-idle", "Job", corev1.PodSucceeded),
	).WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	asked := []*plan.NodeClaim{{UID: "idle"}, {UID: "busy"}}
	for name, c := range map[string]struct {
		pods bool
		want map[types.UID]plan.Load
	}{
		"without pods": {false, map[types.UID]plan.Load{"idle": {Consolidatable: true, PodEvent: initialized}, "busy": {PodEvent: event}}},
		"with pods":    {true, map[types.UID]plan.Load{"idle": {Consolidatable: true, PodEvent: initialized, Counted: true}, "busy": {PodEvent: event, Pods: 2, Counted: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := cluster.Loads(reader, time.Unix(3000, 0))(t.Context(), []plan.LoadQuestion{{Pool: "a", Claims: asked, Pods: c.pods}})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("loads (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLoadsOfAStaticPool: what Karpenter compares of a node to choose which nodes of a static NodePool it terminates.
func TestLoadsOfAStaticPool(t *testing.T) {
	now := time.Unix(100_000, 0)
	claim := func(name string, change func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Labels: map[string]string{karpv1.NodePoolLabelKey: "a"}, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
		}}
		c.Status.NodeName, c.Status.ProviderID = "node-"+name, "aws:///"+name
		if change != nil {
			change(c)
		}
		return c
	}
	pod := func(node, owner string, annotations map[string]string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "pod-", Annotations: annotations}, Spec: corev1.PodSpec{NodeName: "node-" + node}}
		p.Status.StartTime = &metav1.Time{Time: now.Add(-time.Hour)}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "a", Controller: ptr.To(true)}}
		return p
	}
	protected := func(value string) map[string]string {
		return map[string]string{karpv1.DoNotDisruptAnnotationKey: value}
	}
	costs := func(annotation, value string) map[string]string { return map[string]string{annotation: value} }
	fixed := func(low, high float64) plan.DisruptionCost { return plan.DisruptionCost{Low: low, High: high} }
	const half = "67108864" // 2^26, where 2^27 is the cost of a pod
	for name, c := range map[string]struct {
		claim func(*karpv1.NodeClaim)
		pods  []*corev1.Pod
		want  plan.Deprovision
	}{
		"not launched":                 {claim: func(c *karpv1.NodeClaim) { c.Status.NodeName, c.Status.ProviderID = "", "" }, want: plan.Deprovision{Rank: plan.NotLaunched}},
		"not registered":               {claim: func(c *karpv1.NodeClaim) { c.Status.NodeName = "" }, want: plan.Deprovision{Rank: plan.WithoutPods}},
		"empty":                        {want: plan.Deprovision{Rank: plan.WithoutPods}},
		"a DaemonSet":                  {pods: []*corev1.Pod{pod("n", "DaemonSet", nil)}, want: plan.Deprovision{Rank: plan.WithoutPods}},
		"a DaemonSet not to disrupt":   {pods: []*corev1.Pod{pod("n", "DaemonSet", protected("true"))}, want: plan.Deprovision{Rank: plan.WithProtectedPods, Now: fixed(1, 1), Later: fixed(1, 1)}},
		"two pods, one of a DaemonSet": {pods: []*corev1.Pod{pod("n", "DaemonSet", nil), pod("n", "ReplicaSet", nil)}, want: plan.Deprovision{Rank: plan.WithPods, Now: fixed(2, 2), Later: fixed(2, 2)}},
		"not to disrupt for 2h":        {pods: []*corev1.Pod{pod("n", "ReplicaSet", protected("2h"))}, want: plan.Deprovision{Rank: plan.WithProtectedPods, Now: fixed(1, 1), Later: fixed(1, 1)}},
		"which has passed":             {pods: []*corev1.Pod{pod("n", "ReplicaSet", protected("30m"))}, want: plan.Deprovision{Rank: plan.WithPods, Now: fixed(1, 1), Later: fixed(1, 1)}},
		"half of its lifetime":         {claim: expires(2 * time.Hour), pods: []*corev1.Pod{pod("n", "ReplicaSet", nil)}, want: plan.Deprovision{Rank: plan.WithPods, Now: fixed(0.5, 0.5)}},
		"a disruption cost":            {pods: []*corev1.Pod{pod("n", "ReplicaSet", costs("karpenter.sh/disruption-cost", half))}, want: plan.Deprovision{Rank: plan.WithPods, Now: fixed(1, 1.5), Later: fixed(1, 1.5)}},
		"a pod deletion cost":          {pods: []*corev1.Pod{pod("n", "ReplicaSet", costs(corev1.PodDeletionCost, half))}, want: plan.Deprovision{Rank: plan.WithPods, Now: fixed(1, 1.5), Later: fixed(1, 1.5)}},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := errors.Join(corev1.AddToScheme(scheme), cluster.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			objects := []client.Object{claim("n", c.claim)}
			for i, p := range c.pods {
				p.Name = fmt.Sprint(i)
				objects = append(objects, p)
			}
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
				WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
			got := cluster.Loads(reader, now)(t.Context(), []plan.LoadQuestion{{Pool: "a", Claims: []*plan.NodeClaim{{UID: "n"}}, Deprovision: true}})
			if diff := cmp.Diff(&c.want, got["n"].Deprovision); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func expires(after time.Duration) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter.Duration = &after }
}
