package plan

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// After is the object as it is after the Change: what lives, with the fields that differ as Git
// has them. One that does not exist becomes what Git says, with the schema's defaults. Read only.
func (c *Change) After() *unstructured.Unstructured {
	if c.Live == nil {
		return c.Wanted()
	}
	after := c.Live.DeepCopy()
	for _, d := range c.differences {
		if d.to == nil {
			unstructured.RemoveNestedField(after.Object, d.path...)
			continue
		}
		// What stands in the way of a map is replaced by it: the path is one of maps in Git.
		_ = unstructured.SetNestedField(after.Object, runtime.DeepCopyJSONValue(d.to), d.path...)
	}
	return after
}
