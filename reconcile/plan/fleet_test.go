package plan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// fleet is a cluster of many nodes as in the daemon's watch cache, and a commit that changes each of its NodePools.
type fleet struct {
	pools, claims int
	schema        *schema.Validator
	before, after *render.Set
	// list is the LIST of its NodeClaims, as the API server sends it.
	list []byte
	// cached are the objects in the watch cache, by their kind, after trim.
	cached map[string][]runtime.Object
	trim   func(any) (any, error)
}

// fleetClasses is how many EC2NodeClasses the NodePools share.
const fleetClasses = 10

// fleetNow returns the time of the plan.
func fleetNow() time.Time { return time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC) }

func newFleet(t testing.TB, pools, claims int) *fleet {
	t.Helper()
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{pools: pools, claims: claims, cached: map[string][]runtime.Object{}}
	f.trim = cluster.CacheOptions(&cluster.Refusals{}).DefaultTransform
	if f.schema, err = schema.New(crds); err != nil {
		t.Fatal(err)
	}
	server := applytest.New(t)
	f.before, f.after = &render.Set{Revision: "main@sha1:1"}, &render.Set{Revision: "main@sha1:2"}
	for i := range fleetClasses {
		f.define(t, server, fleetClass(i, false), fleetClass(i, true))
	}
	for i := range pools {
		f.define(t, server, fleetPool(i, false), fleetPool(i, true))
	}
	f.claim(t)
	return f
}

// define adds an object as it is before the commit, with Karpenter's annotations.
func (f *fleet) define(t testing.TB, server *applytest.Server, before, after string) {
	t.Helper()
	object := server.Definition(t, before)
	f.before.Objects = append(f.before.Objects, object)
	f.after.Objects = append(f.after.Objects, server.Definition(t, after))
	if err := server.ApplyAs(t.Context(), plan.Desired(object, owner), v1alpha1.FieldManager, true); err != nil {
		t.Fatal(err)
	}
	server.Edit(t, object.Ref, "karpenter", func(o *unstructured.Unstructured) {
		o.SetAnnotations(hashesOf(t, o))
		if o.GetKind() == render.NodePool {
			o.Object["status"] = map[string]any{"resources": map[string]any{"cpu": "900", "memory": "3600Gi", "nodes": "100"}}
		}
	})
	f.cache(t, server.Object(object.Ref))
}

// hashesOf returns the annotations with which Karpenter detects drifted nodes.
func hashesOf(t testing.TB, o *unstructured.Unstructured) map[string]string {
	t.Helper()
	read := func(into any) {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
			t.Fatal(err)
		}
	}
	if o.GetKind() == render.NodePool {
		p := &karpv1.NodePool{}
		read(p)
		return map[string]string{karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion, karpv1.NodePoolHashAnnotationKey: p.Hash()}
	}
	c, bundle := &awsv1.EC2NodeClass{}, ""
	read(c)
	return map[string]string{awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion, awsv1.AnnotationEC2NodeClassHash: c.Hash(&bundle)}
}

// cache stores what the daemon keeps of an object.
func (f *fleet) cache(t testing.TB, object client.Object) {
	t.Helper()
	kept, err := f.trim(object)
	if err != nil {
		t.Fatal(err)
	}
	kind := object.GetObjectKind().GroupVersionKind().Kind
	f.cached[kind] = append(f.cached[kind], kept.(runtime.Object))
}

// claim adds the NodeClaims.
func (f *fleet) claim(t testing.TB) {
	t.Helper()
	noted := map[string]map[string]string{}
	for _, kind := range []string{render.NodePool, render.EC2NodeClass} {
		for _, o := range f.cached[kind] {
			noted[kind+"/"+o.(client.Object).GetName()] = o.(client.Object).GetAnnotations()
		}
	}
	sent := &karpv1.NodeClaimList{TypeMeta: metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodeClaimList"}}
	for i := range f.claims {
		sent.Items = append(sent.Items, *f.nodeClaim(i, noted))
	}
	var err error
	if f.list, err = json.Marshal(sent); err != nil {
		t.Fatal(err)
	}
	for i := range sent.Items {
		f.cache(t, &sent.Items[i])
	}
}

// nodeClaim returns one of a NodePool, with one of 60 instance types and one of three zones.
func (f *fleet) nodeClaim(i int, noted map[string]map[string]string) *karpv1.NodeClaim {
	in, nth := i%f.pools, i/f.pools
	name, of, kind := fmt.Sprintf("pool-%04d", in), fmt.Sprintf("class-%02d", in%fleetClasses), nth%60
	node := fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", i>>16, i>>8&255, i&255)
	category, capacity, zone := []string{"c", "m", "r"}[kind%3], []string{"spot", "on-demand"}[i%2], "us-east-1"+[]string{"a", "b", "c"}[nth/3%3]
	c := &karpv1.NodeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim"}}
	c.Name, c.UID = fmt.Sprintf("%s-%05d", name, i), types.UID(fmt.Sprintf("5f6d2f5e-7a51-4f6f-9f5b-0c1f0b9%05d", i))
	c.CreationTimestamp = metav1.NewTime(fleetNow().Add(-time.Duration(nth) * time.Hour))
	c.Finalizers = []string{"karpenter.sh/termination"}
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: render.NodePool, Name: name, UID: types.UID("uid-" + name)}}
	c.Labels = map[string]string{
		karpv1.NodePoolLabelKey: name, karpv1.CapacityTypeLabelKey: capacity, "team": "data",
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: node,
		corev1.LabelTopologyRegion: "us-east-1", corev1.LabelTopologyZone: zone, "topology.k8s.aws/zone-id": "use1-az" + zone[9:],
		corev1.LabelInstanceTypeStable: fmt.Sprintf("%s%d.%dxlarge", category, 5+kind/15, 1+kind%15), awsv1.LabelInstanceCategory: category,
		awsv1.LabelInstanceFamily: fmt.Sprintf("%s%d", category, 5+kind/15), awsv1.LabelInstanceGeneration: fmt.Sprint(5 + kind/15),
		awsv1.LabelInstanceCPU: fmt.Sprint(4 + 4*(kind%15)), awsv1.LabelInstanceMemory: fmt.Sprint(16384 * (1 + kind%15)), awsv1.LabelInstanceHypervisor: "nitro",
	}
	c.Annotations = map[string]string{}
	for _, by := range []string{"NodePool/" + name, "EC2NodeClass/" + of} {
		for key, value := range noted[by] {
			c.Annotations[key] = value
		}
	}
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: render.EC2NodeClass, Name: of}
	c.Status.NodeName, c.Status.ProviderID, c.Status.ImageID = node, fmt.Sprintf("aws:///%s/i-%017x", zone, i), "ami-0123456789abcdef0"
	for _, kind := range []string{"Launched", "Registered", "Initialized", "Ready"} {
		c.Status.Conditions = append(c.Status.Conditions, status.Condition{Type: kind, Status: "True", Reason: kind, LastTransitionTime: c.CreationTimestamp})
	}
	if nth%10 == 0 {
		c.Status.Conditions = append(c.Status.Conditions, status.Condition{Type: "Drifted", Status: "True", Reason: "AMIDrift", LastTransitionTime: c.CreationTimestamp})
	}
	return c
}

// List answers like a client of the watch cache, without copies.
func (f *fleet) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	kind := "NodeClaim"
	if list, ok := into.(*unstructured.UnstructuredList); ok {
		kind = list.GetKind()
	}
	return meta.SetList(into, f.cached[kind])
}

// Get is never used.
func (f *fleet) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return fmt.Errorf("a plan reads lists only")
}

// plan does what the daemon does for a commit: it reads its cache, and makes the Plan.
func (f *fleet) plan(t testing.TB, read *cluster.Definitions, memo plan.Memo, policies ...v1alpha1.Policy) *plan.Plan {
	t.Helper()
	live, err := read.Live(t.Context(), f, slices.DeleteFunc(render.Kinds(), render.Kind.Optional))
	if err != nil {
		t.Fatal(err)
	}
	live.Served, live.Memo = true, memo
	all := intstr.FromString("100%")
	p, err := plan.Make(t.Context(), f.after, live, plan.Policy{
		Owner: owner, Adopt: v1alpha1.AdoptIfIdentical, Drift: v1alpha1.DriftCorrect, Guard: v1alpha1.Guard{MaxDisruptedNodes: &all},
		Policies: policies, NewRevision: true, Now: fleetNow(),
	}, f.schema)
	if err != nil || p.Refused != nil {
		t.Fatal(err, p.Refused)
	}
	return p
}
