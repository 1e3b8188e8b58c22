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
// EC2NodeClass, as they live: a commit that the guard holds makes no other nodes. Budgets, limits
// and weights are left out for the same reason.
func definitionOf(pool *plan.Object, live map[render.Ref]*plan.Object) string {
	template, _, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "template")
	name, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "nodeClassRef", "name")
	var class any
	if object := live[render.Ref{Kind: render.EC2NodeClass, Name: name}]; object != nil {
		class = object.Object["spec"]
	}
	text, err := json.Marshal([]any{template, class}) // keys of maps are sorted
	if err != nil {
		return "" // of what was decoded from JSON there is none
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
