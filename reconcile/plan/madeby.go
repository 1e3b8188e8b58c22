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
	class := live[ClassOf(pool)]
	if known := pool.madeBy.Load(); known != nil && known.class == class {
		return known.hash
	}
	template, _, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "template")
	var spec any
	if class != nil {
		spec = class.Object["spec"]
	}
	text, err := json.Marshal([]any{template, spec}) // keys of maps are sorted
	if err != nil {
		return "" // of what was decoded from JSON there is none
	}
	sum := sha256.Sum256(text)
	found := &madeBy{class, hex.EncodeToString(sum[:8])}
	pool.madeBy.Store(found)
	return found.hash
}

// madeBy is the hash that was found of a NodePool with an EC2NodeClass; nil where it names none that lives.
type madeBy struct {
	class *Object
	hash  string
}

// ClassOf is the EC2NodeClass that a NodePool names.
func ClassOf(pool *Object) render.Ref {
	name, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "nodeClassRef", "name")
	return render.Ref{Kind: render.EC2NodeClass, Name: name}
}

// MadeByEdited says that another client has changed what the nodes of a NodePool are made by: it is
// corrected, or stays by spec.drift, and no commit has done it.
func MadeByEdited(pool *Object, changes []Change) bool {
	class := ClassOf(pool)
	for i := range changes { // of thousands of pools each asks of as many
		c, below := &changes[i], "spec"
		switch {
		case len(c.Edited) == 0:
			continue
		case c.Ref == render.Ref{Kind: render.NodePool, Name: pool.GetName()}:
			below = "spec.template"
		case c.Ref != class:
			continue
		}
		if slices.ContainsFunc(c.Edited, func(f Field) bool { return f.Path == below || strings.HasPrefix(f.Path, below+".") }) {
			return true
		}
	}
	return false
}
