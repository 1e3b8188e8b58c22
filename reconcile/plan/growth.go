package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
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

// LimitReached names the limit of a NodePool that leaves no room for a node, by its
// status; empty where none is.
func LimitReached(pool *unstructured.Unstructured) string {
	limits, used := quantities(pool, "spec", "limits"), quantities(pool, "status", "resources")
	var reached []string
	for name, limit := range limits {
		if now, counted := used[name]; counted {
			limit.Sub(now)
		}
		if least := leastNode(pool, name); limit.Sign() <= 0 || limit.Cmp(least) < 0 {
			reached = append(reached, name)
		}
	}
	if len(reached) == 0 {
		return ""
	}
	slices.Sort(reached)
	return reached[0]
}

// LimitsLeft is what the nodes of a NodePool have left of its limits of processors and memory;
// of a resource that it does not limit it has nothing.
func LimitsLeft(pool *unstructured.Unstructured) corev1.ResourceList {
	limits, used := quantities(pool, "spec", "limits"), quantities(pool, "status", "resources")
	left := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if limit, limited := limits[string(name)]; limited {
			limit.Sub(used[string(name)])
			left[name] = limit
		}
	}
	return left
}

// leastNode is what the smallest node of a NodePool takes of a limit: no instance type has less
// than one processor and 512 MiB, and its requirements may ask for more processors.
func leastNode(pool *unstructured.Unstructured, limit string) resource.Quantity {
	switch limit {
	case string(corev1.ResourceMemory):
		return resource.MustParse("512Mi")
	case string(corev1.ResourceCPU):
		return *resource.NewQuantity(render.Least(pool, "karpenter.k8s.aws/instance-cpu"), resource.DecimalSI)
	}
	return resource.Quantity{}
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
