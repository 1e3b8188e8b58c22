package removal

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatWasRevertedIsCounted: of the nodes that there were, one stays.
func TestWhatWasRevertedIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		wanted []render.Ref
		want   []teardown.Write
	}{
		"in Git again": {
			[]render.Ref{general},
			[]teardown.Write{{Kind: general.Kind, Name: general.Name, Action: teardown.Reverted{Commit: "a", Ended: 2, NodeClaims: 3}}},
		},
		"another NodeSync's": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := living(t)
			owner := metav1.NewControllerRef(b.sync, v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
			record := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: teardown.RecordName("prod"), OwnerReferences: []metav1.OwnerReference{*owner}},
				Data:       map[string]string{"p1": `{"kind": "NodePool", "name": "general", "growth": {}, "nodeClaims": 3}`},
			}
			if err := b.client.Create(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			s := b.step(c.wanted...)
			open := v1alpha1.Removal{Kind: general.Kind, Name: general.Name, UID: "p1", Revision: "main@sha1:a", Phase: v1alpha1.RemovalDraining}
			s.Sync.Status.Removals, s.Plan = []v1alpha1.Removal{open}, &plan.Plan{Returned: []v1alpha1.Removal{open}}
			got, err := s.takeBack(t.Context(), s.pace())
			if err != nil || len(s.Sync.Status.Removals) > 0 {
				t.Errorf("removals %+v, error %v", s.Sync.Status.Removals, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatIsHeldGetsItsGrowthBack: what Git has again, as another one that the guard holds, is not
// written, and grows as before.
func TestWhatIsHeldGetsItsGrowthBack(t *testing.T) {
	b := living(t)
	owner := metav1.NewControllerRef(b.sync, v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
	record := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: teardown.RecordName("prod"), OwnerReferences: []metav1.OwnerReference{*owner}},
		Data:       map[string]string{"p1": `{"kind": "NodePool", "name": "general", "growth": {"cpu": "100"}, "nodeClaims": 1}`},
	}
	stopped := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": general.Kind, "spec": map[string]any{"limits": map[string]any{"cpu": "0"}}}}
	stopped.SetName(general.Name)
	err := b.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(stopped), client.FieldOwner(v1alpha1.RemovalFieldManager), client.ForceOwnership)
	if err := errors.Join(err, b.client.Create(t.Context(), record)); err != nil {
		t.Fatal(err)
	}
	s := b.step(general)
	open := v1alpha1.Removal{Kind: general.Kind, Name: general.Name, UID: "p1", Revision: "main@sha1:a", Phase: v1alpha1.RemovalDraining}
	s.Sync.Status.Removals = []v1alpha1.Removal{open}
	s.Plan = &plan.Plan{Returned: []v1alpha1.Removal{open}, Changes: []plan.Change{{Ref: general, Action: plan.Hold, Live: b.livePool()}}}
	if _, err := s.Run(t.Context()); err != nil || len(s.Sync.Status.Removals) != 1 {
		t.Errorf("removals %+v, error %v", s.Sync.Status.Removals, err)
	}
	after := b.livePool()
	if cpu, _, _ := unstructured.NestedString(after.Object, "spec", "limits", "cpu"); cpu != "100" || after.GetLabels()[v1alpha1.OwnerLabel] == "" {
		t.Errorf("after: %v", after.Object)
	}
	for _, entry := range after.GetManagedFields() {
		if entry.Manager == v1alpha1.RemovalFieldManager && entry.Operation == metav1.ManagedFieldsOperationApply {
			t.Errorf("the removal has it still: %v", entry)
		}
	}
}

// TestAPoolThatAnotherMayHavePauses: after a restart nothing is known of the other NodeSyncs for seconds. Karpenter begins no
// more nodes, and the pool grows again only where that lasts.
func TestAPoolThatAnotherMayHavePauses(t *testing.T) {
	for name, c := range map[string]struct {
		since    time.Duration
		handed   bool
		restores bool
	}{
		"since a moment":       {10 * time.Second, false, false},
		"for a while":          {2 * time.Minute, false, true},
		"that another one has": {10 * time.Second, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := living(t)
			leaves := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": general.Kind, "spec": map[string]any{
				"limits":     map[string]any{"cpu": "0"},
				"template":   map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.LeavingLabel: "20260301T000000Z"}}},
				"disruption": map[string]any{"budgets": []any{map[string]any{"nodes": "1", "reasons": []any{"Drifted"}}}},
			}}}
			leaves.SetName(general.Name)
			if err := b.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(leaves), client.FieldOwner(v1alpha1.RemovalFieldManager), client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
			s := b.step(general)
			s.Before.Status.Removals = []v1alpha1.Removal{{Kind: general.Kind, Name: general.Name, UID: "p1", Phase: v1alpha1.RemovalDraining}}
			s.Sync.Status.Removals = slices.Clone(s.Before.Status.Removals)
			s.Live.Objects = map[render.Ref]*plan.Object{general: plan.NewObject(b.livePool())}
			s.Plan = &plan.Plan{Kept: []plan.Kept{{Ref: general, UID: "p1", HandedOver: c.handed, Since: s.Now.Add(-c.since)}}}
			if _, err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			after := b.livePool()
			labels, _, _ := unstructured.NestedStringMap(after.Object, "spec", "template", "metadata", "labels")
			if _, leaves := labels[v1alpha1.LeavingLabel]; leaves == c.restores {
				t.Errorf("labels %v", labels)
			}
			if budgets := fmt.Sprint(plan.BudgetsOf(after)); budgets != "[map[nodes:0 reasons:[Drifted]]]" {
				t.Errorf("budgets %s", budgets)
			}
			if s.WakeAt.IsZero() || s.WakeAt.After(s.Now.Add(brief)) {
				t.Errorf("the next pass is wanted at %s", s.WakeAt)
			}
		})
	}
}
