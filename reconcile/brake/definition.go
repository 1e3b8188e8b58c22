package brake

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// definitionOf is a hash of what the nodes of a NodePool are made by: its template and its
// EC2NodeClass, as Git has them, or as they live where the class is not in this Git. Budgets,
// limits and weights are left out: they make no other nodes.
func definitionOf(pool *unstructured.Unstructured, classes map[string]*unstructured.Unstructured) string {
	template, _, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "template")
	name, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "nodeClassRef", "name")
	var class any
	if object := classes[name]; object != nil {
		class = object.Object["spec"]
	}
	text, err := json.Marshal([]any{template, class}) // keys of maps are sorted
	if err != nil {
		return "" // of what was decoded from JSON there is none
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// classesOf are the EC2NodeClasses by name: those of Git, and of what lives those that Git lacks.
func classesOf(set *render.Set, live map[render.Ref]*plan.Object) map[string]*unstructured.Unstructured {
	classes := map[string]*unstructured.Unstructured{}
	for ref, object := range live {
		if ref.Kind == render.EC2NodeClass {
			classes[ref.Name] = object.Unstructured
		}
	}
	for _, object := range set.Objects {
		if object.Ref.Kind == render.EC2NodeClass {
			classes[object.Ref.Name] = object.Defaulted
		}
	}
	return classes
}
