package observe

import (
	"fmt"
	"maps"
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// trimDefinition keeps of a NodePool or EC2NodeClass what is compared with Git,
// who owns its fields, and whether it is Ready. What many have in common is held
// once. What it is given stays as it is: it is trimmed once more where a watch is opened again, and
// others read it by then.
func trimDefinition(full *unstructured.Unstructured, values *render.Values) (any, error) {
	obj := &unstructured.Unstructured{Object: maps.Clone(full.Object)}
	if metadata, ok := obj.Object["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		obj.Object["metadata"] = metadata
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			annotations = maps.Clone(annotations)
			// The whole object once more, only for kubectl.
			delete(annotations, corev1.LastAppliedConfigAnnotation)
			metadata["annotations"] = annotations
		}
	}
	if err := plan.PackManagedFields(obj); err != nil {
		return nil, fmt.Errorf("trim %s/%s: %w", obj.GetKind(), obj.GetName(), err)
	}
	trimStatus(obj)
	values.Share(obj)
	return obj, nil
}

// trimStatus leaves the Ready condition in a status, those that say why it is not
// True, how much of its limits a NodePool uses, and what Karpenter has found for the selectors of an
// EC2NodeClass.
func trimStatus(obj *unstructured.Unstructured) {
	var kept []any
	if value, _, err := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions"); err == nil {
		conditions, _ := value.([]any)
		for _, c := range conditions {
			fields, ok := c.(map[string]any)
			if ok && (fields["type"] == readyCondition || fields["type"] == awsv1.ConditionTypeAMIsReady || fields["status"] == string(metav1.ConditionFalse)) {
				fields = maps.Clone(fields)
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
	if amis := amisOf(obj); amis != nil {
		status["amis"] = amis
	}
	for _, list := range resolvedLists {
		if ids := idsOf(obj, list); ids != nil {
			status[list] = ids
		}
	}
	delete(obj.Object, "status")
	if len(status) > 0 {
		obj.Object["status"] = status
	}
}

// amisOf are the AMIs in the status of an EC2NodeClass, with what is compared with nodes.
func amisOf(obj *unstructured.Unstructured) (kept []any) {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "amis")
	amis, _ := value.([]any)
	for _, a := range amis {
		if fields, ok := a.(map[string]any); ok {
			kept = append(kept, map[string]any{"id": fields["id"], "requirements": fields["requirements"]})
		}
	}
	return kept
}

// resolvedLists are the lists in the status of an EC2NodeClass of which IDs are kept: what nodes
// that are outdated by them should have.
var resolvedLists = []string{"securityGroups", "subnets", "capacityReservations"}

// idsOf are the IDs in such a list, in their order: Karpenter's is another one whenever the
// addresses of a subnet are taken (karpenter-provider-aws
// pkg/controllers/nodeclass/subnet.go, 1.14.1).
func idsOf(obj *unstructured.Unstructured, list string) (kept []any) {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", list)
	found, _ := value.([]any)
	var ids []string
	for _, one := range found {
		fields, _ := one.(map[string]any)
		if id, ok := fields["id"].(string); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		kept = append(kept, map[string]any{"id": id})
	}
	return kept
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
