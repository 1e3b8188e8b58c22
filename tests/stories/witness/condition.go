package witness

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// conditionOf returns the fields of an object's condition; nil if it has none.
func conditionOf(object *unstructured.Unstructured, kind string) map[string]string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if fields, ok := c.(map[string]any); ok && fields["type"] == kind {
			said := map[string]string{}
			for key, value := range fields {
				said[key] = fmt.Sprint(value)
			}
			return said
		}
	}
	return nil
}
