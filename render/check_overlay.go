package render

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// checkOverlay refuses what the schema of NodeOverlays refuses, too, but only by a pattern.
func checkOverlay(object Object) []problem {
	var found []problem
	if price, _, _ := unstructured.NestedString(object.Desired.Object, "spec", "price"); strings.HasPrefix(price, "-") {
		found = append(found, problem{"spec.price", fmt.Sprintf(
			"%s: spec.price is %s, but a price cannot be negative: give USD per hour, or lower the list price with spec.priceAdjustment, such as -10%%", object.Ref, price)})
	}
	adjustment, _, _ := unstructured.NestedString(object.Desired.Object, "spec", "priceAdjustment")
	switch unsigned := adjustment != "" && !strings.HasPrefix(adjustment, "+") && !strings.HasPrefix(adjustment, "-"); {
	case unsigned:
		found = append(found, problem{"spec.priceAdjustment", fmt.Sprintf(
			"%s: spec.priceAdjustment is %s, and needs a sign, such as +10%% or -0.05: spec.price replaces the list price", object.Ref, adjustment)})
	case strings.HasPrefix(adjustment, "-") && strings.HasSuffix(adjustment, "%") && tooLow(adjustment):
		found = append(found, problem{"spec.priceAdjustment", fmt.Sprintf(
			"%s: spec.priceAdjustment is %s, and cannot lower a price by more than 100%%", object.Ref, adjustment)})
	}
	return found
}

// tooLow reports whether a negative percentage has three digits before the decimal point, and is not -100%.
func tooLow(percentage string) bool {
	whole, _, _ := strings.Cut(strings.Trim(percentage, "-%"), ".")
	return len(whole) > 2 && percentage != "-100%"
}

// checkRuntime refuses what Karpenter's controller of NodeOverlays refuses after the API server has accepted the object
// (RuntimeValidate in karpenter pkg/apis/v1alpha1/nodeoverlay_validation.go, 1.14.1). It is called with objects that
// are valid by their schema.
func checkRuntime(ctx context.Context, object Object) []problem {
	overlay := &v1alpha1.NodeOverlay{}
	if object.Ref.Kind != NodeOverlay || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Desired.Object, overlay) != nil {
		return nil // checkReadable reports the error
	}
	var found []problem
	for i, r := range overlay.Spec.Requirements {
		err := karpv1.ValidateRequirement(ctx, karpv1.NodeSelectorRequirementWithMinValues{Key: r.Key, Operator: r.Operator, Values: r.Values})
		if err != nil {
			found = append(found, problem{
				fmt.Sprintf("spec.requirements[%d]", i),
				fmt.Sprintf("%s: spec.requirements[%d]: %s", object.Ref, i, strings.ReplaceAll(err.Error(), "\n", "; ")),
			})
		}
	}
	for name := range overlay.Spec.Capacity {
		if karpv1.WellKnownResources.Has(name) {
			found = append(found, problem{"spec.capacity", fmt.Sprintf(
				"%s: spec.capacity has %s, which is the instance type's: an overlay may only add other resources", object.Ref, name)})
		}
	}
	return found
}

// warnOfOverlay returns a sentence if an overlay changes nothing.
func warnOfOverlay(object Object) string {
	if object.Ref.Kind != NodeOverlay {
		return ""
	}
	spec, _, _ := unstructured.NestedMap(object.Desired.Object, "spec")
	for _, field := range []string{"price", "priceAdjustment", "capacity"} {
		if _, given := spec[field]; given {
			return ""
		}
	}
	return fmt.Sprintf("%s has no effect: it has neither price, priceAdjustment nor capacity", object.Ref)
}

// PoolsSelected returns the NodePools that a NodeOverlay names in its requirements: it applies to no other. It returns
// none if the overlay does not depend on NodePools.
func PoolsSelected(ref Ref, overlay *unstructured.Unstructured) []Ref {
	if ref.Kind != NodeOverlay {
		return nil
	}
	var pools []Ref
	for _, requirement := range list(overlay, "spec", "requirements") {
		if requirement["key"] != karpv1.NodePoolLabelKey || requirement["operator"] != "In" {
			continue
		}
		for _, name := range texts(requirement["values"]) {
			if ref := (Ref{Kind: NodePool, Name: name}); !slices.Contains(pools, ref) {
				pools = append(pools, ref)
			}
		}
	}
	return pools
}
