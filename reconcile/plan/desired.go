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
//
// Empty maps are left out. They say nothing, no field of ours requires one, and
// the API server keeps or drops them by what was there before.
func Desired(object render.Object, owner Owner) *unstructured.Unstructured {
	desired := object.Defaulted.DeepCopy()
	label, annotation := owner.Label()
	desired.SetLabels(with(desired.GetLabels(), label))
	if annotation != "" {
		desired.SetAnnotations(with(desired.GetAnnotations(), annotation))
	}
	for _, part := range []string{"metadata", "spec"} {
		if fields, ok := desired.Object[part].(map[string]any); ok {
			dropEmpty(fields)
		}
	}
	return desired
}

// dropEmpty takes empty maps out of a map, those that become empty by it too.
// What is in lists stays: a list is written as a whole.
func dropEmpty(fields map[string]any) {
	for key, value := range fields {
		if within, ok := value.(map[string]any); ok {
			dropEmpty(within)
			if len(within) == 0 {
				delete(fields, key)
			}
		}
	}
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
