package plan

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/render"
)

// Memo holds which objects one Plan has found as Git says, so that the next does
// not compare them again. It is no part of what is planned: a Plan with a Memo
// equals one without. The zero value knows nothing.
type Memo struct {
	owner  Owner
	schema Schema
	clean  map[render.Ref]comparison
}

// comparison names the two objects that were compared. A rendered object is read
// only, so that its address stands for what is in it; a live one is named by its
// UID and resourceVersion.
type comparison struct {
	rendered        *unstructured.Unstructured
	uid             types.UID
	resourceVersion string
}

func comparisonOf(object render.Object, live *unstructured.Unstructured) comparison {
	return comparison{rendered: object.Defaulted, uid: live.GetUID(), resourceVersion: live.GetResourceVersion()}
}

// newMemo is empty; the comparisons in it are made for an owner, by a schema.
func newMemo(owner Owner, schema Schema, objects int) Memo {
	return Memo{owner: owner, schema: schema, clean: make(map[render.Ref]comparison, objects)}
}

// isClean says whether these very objects were found equal.
func (m Memo) isClean(object render.Object, live *unstructured.Unstructured, owner Owner, schema Schema) bool {
	known, ok := m.clean[object.Ref]
	return ok && m.owner == owner && m.schema == schema && known == comparisonOf(object, live)
}

// note keeps a comparison that found nothing to change. An object without a
// resourceVersion does not say when it changes.
func (m Memo) note(object render.Object, live *unstructured.Unstructured) {
	if live.GetResourceVersion() != "" {
		m.clean[object.Ref] = comparisonOf(object, live)
	}
}
