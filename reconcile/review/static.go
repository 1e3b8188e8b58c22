package review

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// switchedOff names the static pools of a commit for which the values of the charts turn Karpenter's feature gate off. The
// daemon finds that once such a pool is short of nodes, which may be long after the commit.
func switchedOff(set *render.Set, values map[string]any) []string {
	on, known, err := unstructured.NestedBool(values, "settings", "featureGates", "staticCapacity")
	if set == nil || err != nil || !known || on {
		return nil
	}
	var words []string
	for i := range set.Objects {
		o := &set.Objects[i]
		if o.Ref.Kind != render.NodePool || o.Desired == nil {
			continue
		}
		if replicas, static, err := unstructured.NestedInt64(o.Desired.Object, "spec", "replicas"); static && err == nil && replicas > 0 {
			words = append(words, fmt.Sprintf("%s is static (spec.replicas), and the chart's values have settings.featureGates.staticCapacity: false: Karpenter launches no node for it any more, "+
				"and replaces none that it loses: set it to true", o.Ref))
		}
	}
	return words
}
