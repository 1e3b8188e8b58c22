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

// trimStatus leaves the Ready condition in a status, those that say why it is not
// True, and how much of its limits a NodePool uses.
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
	status := map[string]any{}
	if kept != nil {
		status["conditions"] = kept
	}
	if used := limited(obj); used != nil {
		status["resources"] = used
	}
	delete(obj.Object, "status")
	if len(status) > 0 {
		obj.Object["status"] = status
	}
}

// limited is what a NodePool uses of the resources that its spec limits.
func limited(obj *unstructured.Unstructured) map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "limits")
	limits, _ := value.(map[string]any)
	value, _, _ = unstructured.NestedFieldNoCopy(obj.Object, "status", "resources")
	resources, _ := value.(map[string]any)
	var used map[string]any
	for name := range limits {
		if amount, found := resources[name]; found {
			if used == nil {
				used = map[string]any{}
			}
			used[name] = amount
		}
	}
	return used
}
