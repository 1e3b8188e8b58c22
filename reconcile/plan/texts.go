package plan

import (
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// texts are what digests take of a rendered object, which does not change: where thousands are held each
// pass digests them all.
type texts struct {
	of *unstructured.Unstructured

	whole      sync.Once
	json       json.RawMessage
	spec       sync.Once
	definition string
}

// object is the whole of it; nil where it has no JSON, which is so of none that was decoded from some.
func (t *texts) object() json.RawMessage {
	t.whole.Do(func() {
		if text, err := json.Marshal(t.of.Object); err == nil {
			t.json = text
		}
	})
	return t.json
}

// defined is its Definition.
func (t *texts) defined() string {
	t.spec.Do(func() { t.definition = Definition(t.of) })
	return t.definition
}

// said are the texts of what a Change is about.
func (c *Change) said() *texts {
	if c.texts == nil || c.texts.of != c.Object.Desired {
		return &texts{of: c.Object.Desired}
	}
	return c.texts
}
