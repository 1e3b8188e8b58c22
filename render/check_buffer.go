package render

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
)

// checkBuffer refuses a CapacityBuffer that Karpenter reports as not ReadyForProvisioning although the API server
// accepts it (resolveAndUpdateStatus in karpenter pkg/controllers/capacitybuffer/controller.go, and ResolveScalableRef
// in pkg/utils/apps/resolve.go, 1.14.1).
func checkBuffer(object Object) []problem {
	spec, _, _ := unstructured.NestedMap(object.Desired.Object, "spec")
	if spec["podTemplateRef"] == nil && spec["scalableRef"] == nil {
		return []problem{{"spec", fmt.Sprintf(
			"%s: spec has neither podTemplateRef nor scalableRef: give the PodTemplate, or the workload, whose pods it reserves capacity for", object.Ref)}}
	}
	scalable, _ := spec["scalableRef"].(map[string]any)
	if scalable == nil {
		return nil
	}
	var found []problem
	if group, _ := scalable["apiGroup"].(string); group != "" && group != "apps" {
		found = append(found, problem{
			"spec.scalableRef.apiGroup", fmt.Sprintf("%s: spec.scalableRef.apiGroup is %s, and Karpenter supports only apps", object.Ref, group),
		})
	}
	kinds := []string{v1beta1.KindDeployment, v1beta1.KindStatefulSet, v1beta1.KindReplicaSet}
	if kind, _ := scalable["kind"].(string); kind != "" && !slices.Contains(kinds, kind) {
		found = append(found, problem{
			"spec.scalableRef.kind",
			fmt.Sprintf("%s: spec.scalableRef.kind is %s, and Karpenter supports only %s", object.Ref, kind, strings.Join(kinds, ", ")),
		})
	}
	return found
}

// warnOfBuffer returns a sentence about the fields of a CapacityBuffer that have no effect (computeReplicas in karpenter
// pkg/controllers/capacitybuffer/controller.go, 1.14.1).
func warnOfBuffer(object Object) string {
	if object.Ref.Kind != CapacityBuffer {
		return ""
	}
	spec, _, _ := unstructured.NestedMap(object.Desired.Object, "spec")
	has := func(field string) bool { return spec[field] != nil }
	switch {
	case has("percentage") && has("podTemplateRef"):
		return fmt.Sprintf("%s: spec.percentage has no effect without scalableRef", object.Ref)
	case !has("replicas") && !has("percentage") && !has("limits"):
		return fmt.Sprintf("%s reserves no capacity: it has neither replicas, percentage nor limits", object.Ref)
	}
	return ""
}
