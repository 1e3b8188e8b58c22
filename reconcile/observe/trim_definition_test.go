package observe_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// full is a NodePool as the API server has it after some weeks.
func full() *unstructured.Unstructured {
	object := pool(
		map[string]any{"type": "NodeClassReady", "status": "True", "message": strings.Repeat("x", 500)},
		map[string]any{"type": "Ready", "status": "True", "observedGeneration": int64(2), "lastTransitionTime": "2026-11-21T00:00:00Z"},
	)
	object.Object["spec"] = map[string]any{"weight": int64(3), "limits": map[string]any{"cpu": "10"}, "list": []any{"a", map[string]any{"b": int64(1)}}}
	object.Object["status"].(map[string]any)["resources"] = map[string]any{"cpu": "10", "memory": "4Gi"}
	object.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 3000), "team": "a"})
	when := metav1.Unix(1, 0)
	object.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "plumbline", Operation: "Apply", APIVersion: "karpenter.sh/v1", Time: &when, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:weight":{}}}`)},
		{Manager: "karpenter", Operation: "Update", Subresource: "status", Time: &when, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{}}}`)},
	})
	return object
}

// TestTrimmingLeavesTheObjectAlone: what is trimmed again is shared, and read, by then.
func TestTrimmingLeavesTheObjectAlone(t *testing.T) {
	transform := observe.CacheOptions(&observe.Refusals{}, &render.Values{}).DefaultTransform
	for _, name := range []string{"as it came", "trimmed"} {
		object := full()
		if name == "trimmed" {
			object = kept(t, object)
		}
		before := object.DeepCopy()
		if trimmed, err := transform(object); err != nil || trimmed == any(object) {
			t.Errorf("%s: given back itself, %v", name, err)
		}
		if diff := cmp.Diff(before, object); diff != "" {
			t.Errorf("%s: changed:\n%s", name, diff)
		}
	}
}

func TestTrimDefinition(t *testing.T) {
	want := full()
	trimmed := kept(t, full())
	if diff := cmp.Diff(want.Object["spec"], trimmed.Object["spec"]); diff != "" {
		t.Errorf("spec:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"team": "a"}, trimmed.GetAnnotations()); diff != "" {
		t.Errorf("annotations:\n%s", diff)
	}
	if !plan.Applied(trimmed) {
		t.Error("it is not known any more that we applied it")
	}
	if before, after := observe.Ready(plan.NewObject(want)), observe.Ready(plan.NewObject(trimmed)); before != after || !after.Ready {
		t.Errorf("readiness %+v, was %+v", after, before)
	}
	if used := trimmed.Object["status"].(map[string]any)["resources"]; !cmp.Equal(used, map[string]any{"cpu": "10"}) || plan.LimitReached(trimmed) != "cpu" {
		t.Errorf("kept of what it uses: %v; limit reached: %q", used, plan.LimitReached(trimmed))
	}
	metadata := []any{trimmed.GetName(), trimmed.GetGeneration(), trimmed.GetLabels(), trimmed.GroupVersionKind()}
	if diff := cmp.Diff([]any{want.GetName(), want.GetGeneration(), want.GetLabels(), want.GroupVersionKind()}, metadata); diff != "" {
		t.Errorf("metadata:\n%s", diff)
	}
	if got := size(t, trimmed); got > 700 {
		t.Errorf("kept with %d bytes: %v", got, trimmed.Object)
	}
}

// TestTrimmedClassesKeepWhatTheyResolveTo: the IDs only, in an order that stays.
func TestTrimmedClassesKeepWhatTheyResolveTo(t *testing.T) {
	class := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.k8s.aws/v1", "kind": render.EC2NodeClass, "metadata": map[string]any{"name": "default"}}}
	resolves("subnets", "subnet-2", "subnet-1")(class)
	want := map[string]any{"subnets": []any{map[string]any{"id": "subnet-1"}, map[string]any{"id": "subnet-2"}}}
	if diff := cmp.Diff(want, kept(t, class).Object["status"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
