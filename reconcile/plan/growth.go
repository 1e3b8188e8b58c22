package plan

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// MayGrow says whether a NodePool launches nodes for pods, as far as its spec
// tells: a static one has a fixed number of nodes, and a limit of 0 allows none
// (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go).
func MayGrow(pool *unstructured.Unstructured) bool {
	if _, static, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "replicas"); static {
		return false
	}
	for _, limit := range quantities(pool, "spec", "limits") {
		if limit.IsZero() {
			return false
		}
	}
	return true
}

// LimitReached names the limit of a NodePool that its nodes have used up, by its
// status; empty where none is.
func LimitReached(pool *unstructured.Unstructured) string {
	limits, used := quantities(pool, "spec", "limits"), quantities(pool, "status", "resources")
	var reached []string
	for name, limit := range limits {
		if now, counted := used[name]; limit.IsZero() || counted && now.Cmp(limit) >= 0 {
			reached = append(reached, name)
		}
	}
	if len(reached) == 0 {
		return ""
	}
	slices.Sort(reached)
	return reached[0]
}

// quantities reads a map of quantities. What cannot be read is left out: the API
// server has taken it, so that it is no quantity only where it does not matter.
func quantities(object *unstructured.Unstructured, path ...string) map[string]resource.Quantity {
	values, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	fields, _ := values.(map[string]any)
	all := map[string]resource.Quantity{}
	for name, value := range fields {
		if quantity, err := resource.ParseQuantity(fmt.Sprint(value)); err == nil {
			all[name] = quantity
		}
	}
	return all
}
