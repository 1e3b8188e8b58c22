package upgrade

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Defects describes the known defects of the version of Karpenter that is in force, of what a Set uses; empty if there
// are none, or if the version is unknown.
func Defects(version string, set *render.Set) string {
	if version == "" || set == nil {
		return ""
	}
	var static []string
	for _, object := range set.Objects {
		if object.Ref.Kind == render.NodePool && object.Defaulted != nil && plan.IsStatic(object.Defaulted) {
			static = append(static, object.Ref.Name)
		}
	}
	defects, err := karpenter.Defects(version, len(static) > 0)
	if err != nil {
		return ""
	}
	var words []string
	for _, d := range defects {
		about := fmt.Sprintf("Karpenter %s has a known defect: %s", version, d)
		if d.Static {
			about = fmt.Sprintf("Karpenter %s has a known defect that concerns NodePool/%s: %s", version, finding.Few(static, ", NodePool/"), d)
		}
		words = append(words, about)
	}
	return finding.Few(words, "; ")
}
