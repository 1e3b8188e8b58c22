package landing

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// lessUsed is a NodePool whose limits are what is left of them: its nodes are not there to be counted.
func lessUsed(pool map[string]any) map[string]any {
	limits, found, _ := unstructured.NestedMap(pool, "spec", "limits")
	if !found {
		return pool
	}
	used, _, _ := unstructured.NestedMap(pool, "status", "resources")
	for name, limit := range limits {
		left, ok := quantity(limit)
		taken, known := quantity(used[name])
		if !ok || !known {
			continue
		}
		left.Sub(taken)
		if left.Sign() < 0 {
			left = resource.Quantity{}
		}
		limits[name] = left.String()
	}
	less := (&unstructured.Unstructured{Object: pool}).DeepCopy().Object
	_ = unstructured.SetNestedMap(less, limits, "spec", "limits")
	return less
}

func quantity(value any) (resource.Quantity, bool) {
	switch v := value.(type) {
	case string:
		q, err := resource.ParseQuantity(v)
		return q, err == nil
	case int64:
		return *resource.NewQuantity(v, resource.DecimalSI), true
	}
	return resource.Quantity{}, false
}
