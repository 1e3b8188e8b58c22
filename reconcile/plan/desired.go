package plan

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Desired is what is applied: Git's object with the schema's defaults, and with
// its owner.
//
// The defaults are applied too, so that the whole spec is ours. Were they left
// to the API server, a field that leaves Git could leave its siblings behind: a
// NodePool that no longer says spec.disruption would keep the defaults that once
// stood beside consolidateAfter, without it, and be refused as invalid.
func Desired(object render.Object, owner Owner) *unstructured.Unstructured {
	desired := object.Defaulted.DeepCopy()
	label, annotation := owner.Label()
	desired.SetLabels(with(desired.GetLabels(), label))
	if annotation != "" {
		desired.SetAnnotations(with(desired.GetAnnotations(), annotation))
	}
	return desired
}

func with(marks map[string]string, owner string) map[string]string {
	marked := map[string]string{v1alpha1.OwnerLabel: owner}
	for key, value := range marks {
		if key != v1alpha1.OwnerLabel {
			marked[key] = value
		}
	}
	return marked
}
