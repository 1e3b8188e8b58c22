package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// MadeBy is a hash of what the nodes of a NodePool are made by: its template and its
// EC2NodeClass, as they live: a commit that the guard holds makes no other nodes. Budgets, limits
// and weights are left out for the same reason.
func MadeBy(pool *Object, live map[render.Ref]*Object) string {
	template, _, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "template")
	var class any
	if object := live[ClassOf(pool)]; object != nil {
		class = object.Object["spec"]
	}
	text, err := json.Marshal([]any{template, class}) // keys of maps are sorted
	if err != nil {
		return "" // of what was decoded from JSON there is none
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// ClassOf is the EC2NodeClass that a NodePool names.
func ClassOf(pool *Object) render.Ref {
	name, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "nodeClassRef", "name")
	return render.Ref{Kind: render.EC2NodeClass, Name: name}
}

// MadeByEdited says that another client has changed what the nodes of a NodePool are made by: it is
// corrected, or stays by spec.drift, and no commit has done it.
func MadeByEdited(pool *Object, changes []Change) bool {
	of := map[render.Ref]string{{Kind: render.NodePool, Name: pool.GetName()}: "spec.template", ClassOf(pool): "spec"}
	return slices.ContainsFunc(changes, func(c Change) bool {
		below, is := of[c.Ref]
		return is && slices.ContainsFunc(c.Edited, func(f Field) bool { return f.Path == below || strings.HasPrefix(f.Path, below+".") })
	})
}
