package schema

import (
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Default fills in the defaults of an object's schema, in place. An object of
// an unknown kind stays as it is.
func (v *Validator) Default(object *unstructured.Unstructured) {
	k, err := v.kindOf(object)
	if err != nil {
		return
	}
	k.setDefaults(object.Object)
}

// setDefaults treats nulls as the API server does: they are gone before
// defaults are set.
func (k *kind) setDefaults(object map[string]any) {
	if hasNull(object) {
		defaulting.PruneNonNullableNullsWithoutDefaults(object, k.structural)
	}
	defaulting.Default(object, k.defaults)
}
