package removal

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

const namespace = "plumbline-system"

var (
	general = render.Ref{Kind: render.NodePool, Name: "general"}
	now     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// bed is a cluster with a pool of NodeSync prod, and the Memory of its reconciles.
type bed struct {
	t      *testing.T
	client client.Client
	sync   *v1alpha1.NodeSync
	memory Memory
}

// newBed returns a cluster with one of the NodeSync's pools and its node. Nothing is recorded.
func newBed(t *testing.T) *bed {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme, cluster.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "general-1", UID: "c1", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: render.NodePool, Name: "general", UID: "p1"}},
		},
		Status: karpv1.NodeClaimStatus{ProviderID: "aws:///eu-west-1a/i-0123456789abcdef0", NodeName: "node-1"},
	}
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod", UID: "11"}}
	return &bed{t: t, sync: sync, client: fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithObjects(ownedPool(), claim, sync).
		WithIndex(&corev1.Pod{}, "status.phase", func(o client.Object) []string { return []string{string(o.(*corev1.Pod).Status.Phase)} }).Build()}
}

// living returns a cluster in which the pool is recorded.
func living(t *testing.T) *bed {
	t.Helper()
	b := newBed(t)
	store := b.record()
	applied := apply.Record{Objects: map[render.Ref]types.UID{general: "p1"}, Pools: map[string]bool{"general": true}}
	if err := store.Save(t.Context(), b.client, b.sync, applied); err != nil {
		t.Fatal(err)
	}
	return b
}

// ownedPool returns a pool that plumbline has applied.
func ownedPool() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": render.NodePool, "spec": map[string]any{"weight": int64(1)}}}
	u.SetName("general")
	u.SetUID("p1")
	u.SetLabels(map[string]string{v1alpha1.OwnerLabel: namespace + ".prod", "team": "a"})
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "karpenter.sh/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:weight":{}},"f:metadata":{"f:labels":{"f:plumbline.dev/nodesync":{}}}}`),
	}})
	return u
}

// livePool returns the pool in the cluster.
func (b *bed) livePool() *unstructured.Unstructured {
	b.t.Helper()
	u := ownedPool()
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Name: "general"}, u); err != nil {
		b.t.Fatal(err)
	}
	return u
}

// record returns the record of applied objects in the cluster.
func (b *bed) record() *apply.RecordStore {
	b.t.Helper()
	store, err := apply.LoadRecord(b.t.Context(), b.client, b.sync)
	if err != nil {
		b.t.Fatal(err)
	}
	return store
}

// step returns the Step of a reconcile in which Git contains some pools.
func (b *bed) step(wanted ...render.Ref) *Step {
	b.t.Helper()
	live, err := cluster.Live(b.t.Context(), b.client)
	if err != nil {
		b.t.Fatal(err)
	}
	set := &render.Set{}
	for _, ref := range wanted {
		set.Objects = append(set.Objects, render.Object{Ref: ref})
	}
	return &Step{
		Tools: Tools{Client: b.client, Uncached: b.client, StillLeader: func(context.Context) error { return nil }, Nodes: cluster.Clients{Client: b.client, Uncached: b.client, Launches: &cluster.Launches{Now: func() time.Time { return now }}}},
		Sync:  b.sync.DeepCopy(), Before: b.sync, Memory: &b.memory, Now: now,
		Set: set, Live: live, Served: true, Plan: &plan.Plan{}, Ready: cluster.ByRef{},
		Withheld: func(context.Context, *v1alpha1.NodeSync, func(context.Context) (bool, error)) *v1alpha1.Withheld {
			return nil
		},
		ReadSince: func(time.Time) (bool, string, time.Time) { return true, "", time.Time{} },
		NewOwner: func(context.Context) (func(*unstructured.Unstructured) string, error) {
			return func(*unstructured.Unstructured) string { return "" }, nil
		},
	}
}

// looks returns a step that has checked for vanished pools.
func (b *bed) looks(wanted ...render.Ref) *Step {
	b.t.Helper()
	s := b.step(wanted...)
	vanished, err := s.Vanished(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	s.Live.Vanished = vanished
	return s
}

func warnings(s *Step) string {
	var all []string
	for _, n := range s.Notes {
		all = append(all, n.Reason+": "+n.Message)
	}
	return strings.Join(all, "\n")
}
