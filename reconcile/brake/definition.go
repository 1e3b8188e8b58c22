package brake

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// definitionOf is a hash of what the nodes of a NodePool are made by: its template and its
// EC2NodeClass, as they live: a commit that the guard holds makes no other nodes. Budgets, limits
// and weights are left out for the same reason.
func definitionOf(pool *plan.Object, live map[render.Ref]*plan.Object) string {
	template, _, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "template")
	var class any
	if object := live[classOf(pool)]; object != nil {
		class = object.Object["spec"]
	}
	text, err := json.Marshal([]any{template, class}) // keys of maps are sorted
	if err != nil {
		return "" // of what was decoded from JSON there is none
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func classOf(pool *plan.Object) render.Ref {
	name, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "nodeClassRef", "name")
	return render.Ref{Kind: render.EC2NodeClass, Name: name}
}

// edited says that another client has changed what the nodes of a NodePool are made by. That ends no
// brake: it is corrected, or stays by spec.drift, and no commit has dealt with what has failed.
func edited(pool *plan.Object, changes []plan.Change) bool {
	of := map[render.Ref]string{{Kind: render.NodePool, Name: pool.GetName()}: "spec.template", classOf(pool): "spec"}
	return slices.ContainsFunc(changes, func(c plan.Change) bool {
		below, is := of[c.Ref]
		return is && slices.ContainsFunc(c.Edited, func(f plan.Field) bool { return f.Path == below || strings.HasPrefix(f.Path, below+".") })
	})
}

// reverted says that what the nodes of a NodePool are made by is taken back from what is being rolled
// out there: a class may be taken back for the nodes of another NodePool.
func reverted(pool *plan.Object, changes []plan.Change) bool {
	of := []render.Ref{{Kind: render.NodePool, Name: pool.GetName()}, classOf(pool)}
	return slices.ContainsFunc(changes, func(c plan.Change) bool {
		return slices.Contains(of, c.Ref) && slices.Contains(c.Reverts, pool.GetName())
	})
}
