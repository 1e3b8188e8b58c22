package render

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// checkQuantities refuses quantities that take too long to read, before anything reads
// them: 900,000 digits take seconds, and so does "1e10000000". The CRD's pattern has no
// bound for either, and Karpenter reads them, too.
func checkQuantities(kind Kind, content map[string]any) []problem {
	ref := Ref{Kind: kind.GVK.Kind, Name: (&unstructured.Unstructured{Object: content}).GetName()}
	var found []problem
	for _, unfit := range weigh.Quantities(content) {
		found = append(found, problem{unfit.Path, fmt.Sprintf("%s: %s: %s", ref, unfit.Path, unfit.Message)})
	}
	return found
}
