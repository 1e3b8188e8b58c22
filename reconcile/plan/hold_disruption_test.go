package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestDisruptionHold: the budget allows no voluntary disruption, is recognised by its manager and duration, ends within a
// day, and is left out of what Git is compared with.
func TestDisruptionHold(t *testing.T) {
	now := time.Date(2026, 12, 31, 23, 30, 20, 0, time.UTC)
	git := []any{map[string]any{"nodes": "10%"}, map[string]any{"nodes": "0", "schedule": "0 0 24 12 *", "duration": "24h"}}
	object := render.Object{Defaulted: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": git}}}}}
	held := plan.Held(object, plan.DisruptionHold{From: now.Truncate(time.Minute)})
	want := append([]any{git[0], git[1]}, map[string]any{"nodes": "0", "schedule": "30 23 31 12 *", "duration": "23h59m"})
	if diff := cmp.Diff(want, held); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	live := func(manager string, budgets []any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": budgets}}}}
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "karpenter.sh/v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:disruption":{"f:budgets":{}}}}`),
		}})
		return o
	}
	is := live(v1alpha1.BrakeFieldManager, held)
	if until := plan.HoldOf(is, object, now.Add(time.Hour)); !until.Equal(time.Date(2027, 1, 1, 23, 29, 0, 0, time.UTC)) {
		t.Errorf("until %s", until)
	}
	if diff := cmp.Diff(git, plan.WithoutBrake(is)); diff != "" {
		t.Errorf("without it (-want +got):\n%s", diff)
	}
	for name, o := range map[string]*unstructured.Unstructured{
		"another manager": live("plumbline", held), "Git's own": live(v1alpha1.BrakeFieldManager, git), "other budgets": live(v1alpha1.BrakeFieldManager, held[1:]),
	} {
		if until := plan.HoldOf(o, object, now); !until.IsZero() {
			t.Errorf("%s: until %s", name, until)
		}
	}
	full := render.Object{Defaulted: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": make([]any, plan.MaxBudgets)}}}}}
	if n := len(plan.Held(full, plan.DisruptionHold{From: now})); n != plan.MaxBudgets {
		t.Errorf("%d budgets", n)
	}
}
