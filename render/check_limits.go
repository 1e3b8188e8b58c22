package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// checkLimits refuses limits of a resource that no node has, which limit nothing, and limits that are smaller than the
// smallest node that the NodePool allows, below which Karpenter launches none. A limit of 0 stops a NodePool on purpose.
func checkLimits(object Object) []problem {
	limits, _, _ := unstructured.NestedMap(object.Desired.Object, "spec", "limits")
	var found []problem
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		at := "spec.limits." + name
		if !resourceOfNodes(name) {
			found = append(found, problem{at, fmt.Sprintf(
				"%s: spec.limits.%s: no node has a resource of this name, so that it limits nothing: write cpu, memory, pods, ephemeral-storage, nodes, or the full name of another resource, such as nvidia.com/gpu", object.Ref, name)})
			continue
		}
		limit, err := resource.ParseQuantity(fmt.Sprint(limits[name]))
		smallest, why := SmallestNode(object.Desired, name)
		if err != nil || limit.IsZero() || limit.Cmp(smallest) >= 0 {
			continue
		}
		found = append(found, problem{at, fmt.Sprintf("%s: no node could be launched: spec.limits.%s is %s, and %s", object.Ref, name, limit.String(), why)})
	}
	return found
}

// resourceOfNodes says whether a node can have a resource of this name: one of Kubernetes' own, or one with a domain
// (https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources). nodes is
// Karpenter's, for the number of nodes.
func resourceOfNodes(name string) bool {
	if strings.Contains(name, "/") {
		return len(validation.IsQualifiedName(name)) == 0
	}
	return slices.Contains([]string{"cpu", "memory", "pods", "ephemeral-storage", "nodes"}, name) ||
		strings.HasPrefix(name, "hugepages-") || strings.HasPrefix(name, "attachable-volumes-")
}

// SmallestNode is the least that a node of a NodePool takes of a limit, and why. Of memory it is half of what the instance
// has: how much of it Karpenter leaves to the system is a setting.
func SmallestNode(pool *unstructured.Unstructured, limit string) (smallest resource.Quantity, why string) {
	switch limit {
	case "cpu":
		n := Least(pool, labelCPU)
		return *resource.NewQuantity(n, resource.DecimalSI), fmt.Sprintf("the smallest node that it allows has %d processors", n)
	case "memory":
		n := Least(pool, labelMemory)
		return *resource.NewQuantity(n<<20/2, resource.BinarySI), fmt.Sprintf("the smallest node that it allows has %dMi: without a unit it is in bytes", n)
	case "ephemeral-storage":
		return resource.MustParse("1Gi"), "the smallest volume has 1Gi: without a unit it is in bytes"
	}
	return resource.Quantity{}, ""
}

// Least is the smallest number that a NodePool allows of instance-cpu, or of instance-memory in MiB: that of the smallest
// instance type, or more if its requirements ask for more.
func Least(pool *unstructured.Unstructured, label string) int64 {
	smallest := int64(wholeNumbers()[label].number)
	for _, r := range requirementsOf(pool) {
		if r["key"] != label {
			continue
		}
		fewest := int64(0)
		for _, value := range texts(r["values"]) {
			if n, err := strconv.ParseInt(value, 10, 64); err == nil && (fewest == 0 || n < fewest) {
				fewest = n
			}
		}
		switch r["operator"] {
		case "In", "Gte":
			smallest = max(smallest, fewest)
		case "Gt":
			smallest = max(smallest, fewest+1)
		}
	}
	return smallest
}
