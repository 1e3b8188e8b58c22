package reconcile

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/render"
)

// createPoolAgain makes Flux recreate the pool, and Karpenter a node of it.
func (b *bed) createPoolAgain(nodes bool) {
	b.t.Helper()
	pool := ownedPool()
	pool.SetUID("p2")
	pool.SetManagedFields(nil)
	pool.SetCreationTimestamp(metav1.NewTime(time.Now().Add(time.Minute)))
	pool.SetLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "fleet", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"})
	if err := b.client.Create(b.t.Context(), pool); err != nil {
		b.t.Fatal(err)
	}
	if !nodes {
		return
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "general-2", UID: "c2", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: render.NodePool, Name: "general", UID: "p2"}},
	}}
	if err := b.client.Create(b.t.Context(), claim); err != nil {
		b.t.Fatal(err)
	}
}

// TestDrainNamesOtherAppliers shows that a condition and an event name the other clients that apply what a drain
// deletes, while they do.
func TestDrainNamesOtherAppliers(t *testing.T) {
	b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
	pool := b.livePool()
	pool.SetLabels(map[string]string{v1alpha1.OwnerLabel: namespace + ".prod", "kustomize.toolkit.fluxcd.io/name": "fleet", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"})
	if err := b.client.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	want := "other clients apply objects that this drain removes, and create them again: Flux's Kustomization flux-system/fleet applies NodePool/general: remove them there, or suspend that client"
	if got := conditions.GetMessage(b.read(), v1alpha1.OtherAppliersCondition); got != want {
		t.Errorf("condition %q", got)
	}
	if told := strings.Join(b.told(), "\n"); strings.Count(told, "Warning OtherAppliers "+want) != 1 {
		t.Errorf("events %s", told)
	}
	b.reconcile()
	if told := strings.Join(b.told(), "\n"); strings.Contains(told, "OtherAppliers") {
		t.Errorf("again: %s", told)
	}
	pool = b.livePool()
	pool.SetLabels(map[string]string{v1alpha1.OwnerLabel: namespace + ".prod"})
	if err := b.client.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	if conditions.Has(b.read(), v1alpha1.OtherAppliersCondition) {
		t.Error("Flux applies it no more, and the condition stays")
	}
}

// TestDrainWaitsForAPoolThatWasCreatedAgain shows that a drain waits while a recreated pool has nodes; one without
// nodes is named when the drain is complete.
func TestDrainWaitsForAPoolThatWasCreatedAgain(t *testing.T) {
	b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
	b.recordApplied(apply.Record{Objects: map[render.Ref]types.UID{{Kind: render.NodePool, Name: "general"}: "p1"}, Pools: map[string]bool{"general": true}})
	b.passes("the NodeClaim is ended", func() bool { return b.liveClaim().DeletionTimestamp != nil })
	b.endClaim()
	b.reconcile()
	b.cloud.running[0].State = "terminated"
	b.passes("the pool goes", func() bool { return b.livePool() == nil })
	b.createPoolAgain(true)
	for range 6 {
		b.clock.forward(2 * time.Second)
		b.reconcile()
	}
	if !b.exists() {
		t.Fatalf("the drain ends: %s", strings.Join(b.told(), "\n"))
	}
	ready := conditions.GetMessage(b.read(), meta.ReadyCondition)
	if want := "NodePool/general was recreated by Flux's Kustomization flux-system/fleet during this drain, and it has nodes: remove it there and delete it, or set onDelete: Orphan to keep it"; !strings.Contains(ready, want) {
		t.Errorf("Ready says %q", ready)
	}
	if got := conditions.GetMessage(b.read(), v1alpha1.OtherAppliersCondition); !strings.Contains(got, "NodePool/general was recreated by Flux's Kustomization flux-system/fleet") {
		t.Errorf("condition %q", got)
	}
	b.told()
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-2"}}
	if err := b.client.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	b.passes("the NodeSync goes", func() bool { return !b.exists() })
	if told := strings.Join(b.told(), "\n"); !strings.Contains(told, "the deletion is concluded: EC2 has terminated all of its instances; NodePool/general was recreated by Flux's Kustomization flux-system/fleet") {
		t.Errorf("events %s", told)
	}
}

// TestDrainLeavesAPoolThatStoodBefore shows that a drain leaves a pool that existed before, or that belongs to another
// NodeSync.
func TestDrainLeavesAPoolThatStoodBefore(t *testing.T) {
	for name, change := range map[string]func(pool metav1.Object){
		"of before":           func(pool metav1.Object) { pool.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-time.Hour))) },
		"of another NodeSync": func(pool metav1.Object) { pool.SetLabels(map[string]string{v1alpha1.OwnerLabel: namespace + ".other"}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
			b.recordApplied(apply.Record{Objects: map[render.Ref]types.UID{{Kind: render.NodePool, Name: "general"}: "p1"}, Pools: map[string]bool{"general": true}})
			b.passes("the NodeClaim is ended", func() bool { return b.liveClaim().DeletionTimestamp != nil })
			b.endClaim()
			b.cloud.running[0].State = "terminated"
			b.passes("the pool goes", func() bool { return b.livePool() == nil })
			b.createPoolAgain(true)
			pool := b.livePool()
			change(pool)
			if err := b.client.Update(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			b.passes("the NodeSync goes", func() bool { return !b.exists() })
		})
	}
}
