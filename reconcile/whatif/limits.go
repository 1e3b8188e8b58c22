package whatif

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/plumbline-dev/plumbline/reconcile/capture"
	"github.com/plumbline-dev/plumbline/render"
)

// rooms are what pools have left of their limits, by name; one without limits is not among them.
type rooms map[string]map[string]resource.Quantity

// oneNode is what each node counts against a limit of nodes.
var oneNode = corev1.ResourceList{resources.Node: resource.MustParse("1")}

// roomOf is what NodePools have left but for the nodes of a Capture, which Karpenter counts itself: of a Capture
// with some nodes only the others are known from the status.
func roomOf(definitions []map[string]any, c *capture.Capture) (rooms, error) {
	found, counted := rooms{}, map[string]corev1.ResourceList{}
	for i := range c.Nodes {
		pool := c.Nodes[i].Labels[karpv1.NodePoolLabelKey]
		counted[pool] = resources.Merge(counted[pool], c.Nodes[i].Status.Capacity, oneNode)
	}
	for _, definition := range definitions {
		object := unstructured.Unstructured{Object: definition}
		limits, limited, _ := unstructured.NestedMap(definition, "spec", "limits")
		if object.GetKind() != render.NodePool || !limited {
			continue
		}
		used, _, _ := unstructured.NestedMap(definition, "status", "resources")
		left := map[string]resource.Quantity{}
		for name, limit := range limits {
			l, ok := quantity(limit)
			if !ok {
				return nil, fmt.Errorf("the limits of NodePool/%s: %s is %v, which is no quantity", object.GetName(), name, limit)
			}
			if u, known := quantity(used[name]); known {
				if u.Sub(counted[object.GetName()][corev1.ResourceName(name)]); u.Sign() > 0 {
					l.Sub(u)
				}
			}
			left[name] = l
		}
		found[object.GetName()] = left
	}
	return found, nil
}

// within are the definitions with what is left as their limits.
func (r rooms) within(definitions []map[string]any) []map[string]any {
	var found []map[string]any
	for _, definition := range definitions {
		object := unstructured.Unstructured{Object: definition}
		if left, limited := r[object.GetName()]; limited && object.GetKind() == render.NodePool {
			limits := map[string]any{}
			for name, quantity := range left {
				if quantity.Sign() < 0 {
					quantity = resource.Quantity{}
				}
				limits[name] = quantity.String()
			}
			definition = object.DeepCopy().Object
			_ = unstructured.SetNestedMap(definition, limits, "spec", "limits")
		}
		found = append(found, definition)
	}
	return found
}

func quantity(value any) (resource.Quantity, bool) {
	switch v := value.(type) {
	case string:
		q, err := resource.ParseQuantity(v)
		return q, err == nil
	case int64:
		return *resource.NewQuantity(v, resource.DecimalSI), true
	case float64: // of a file that was read as JSON
		q, err := resource.ParseQuantity(strconv.FormatFloat(v, 'f', -1, 64))
		return q, err == nil
	}
	return resource.Quantity{}, false
}
