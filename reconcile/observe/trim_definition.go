package observe

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// trimDefinition keeps of a NodePool or EC2NodeClass what is compared with Git,
// who owns its fields, and whether it is Ready. What many have in common is held
// once.
func trimDefinition(obj *unstructured.Unstructured, values *render.Values) (any, error) {
	if err := plan.PackManagedFields(obj); err != nil {
		return nil, fmt.Errorf("trim %s/%s: %w", obj.GetKind(), obj.GetName(), err)
	}
	if annotations, found, err := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "annotations"); err == nil && found {
		if values, ok := annotations.(map[string]any); ok {
			// The whole object once more, for kubectl alone.
			delete(values, corev1.LastAppliedConfigAnnotation)
		}
	}
	trimStatus(obj)
	if held, ok := values.Once(obj.Object).(map[string]any); ok {
		obj.Object = held
	}
	return obj, nil
}

// trimStatus leaves the Ready condition in a status, and those that say why it is
// not True.
func trimStatus(obj *unstructured.Unstructured) {
	var kept []any
	if value, _, err := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions"); err == nil {
		conditions, _ := value.([]any)
		for _, c := range conditions {
			fields, ok := c.(map[string]any)
			if ok && (fields["type"] == readyCondition || fields["status"] == string(metav1.ConditionFalse)) {
				delete(fields, "lastTransitionTime")
				kept = append(kept, fields)
			}
		}
	}
	delete(obj.Object, "status")
	if kept != nil {
		obj.Object["status"] = map[string]any{"conditions": kept}
	}
}
