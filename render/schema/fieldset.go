package schema

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// FieldSet is what managedFields would say after a server-side apply of exactly
// this object. It is shared, and read only.
func (v *Validator) FieldSet(object *unstructured.Unstructured) (*fieldpath.Set, error) {
	k, err := v.kindOf(object)
	if err != nil {
		return nil, err
	}
	const usual = 2048
	shape := k.layout.appendShape(make([]byte, 0, usual), object.Object)
	return k.shapes.get(shape, func() (*fieldpath.Set, error) { return k.fieldSet(object) })
}

func (k *kind) fieldSet(object *unstructured.Unstructured) (*fieldpath.Set, error) {
	converter, err := k.converter()
	if err != nil {
		return nil, err
	}
	value, err := converter.ObjectToTyped(object)
	if err != nil {
		return nil, fmt.Errorf("read %s %s by its schema: %w", object.GetKind(), object.GetName(), err)
	}
	set, err := value.ToFieldSet()
	if err != nil {
		return nil, fmt.Errorf("list the fields of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	set = set.Difference(neverManaged())
	if k.status {
		set = set.RecursiveDifference(fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
	}
	return set, nil
}

// neverManaged are the fields that the API server leaves out of managedFields:
// apimachinery, pkg/util/managedfields/internal/stripmeta.go.
func neverManaged() *fieldpath.Set {
	set := fieldpath.NewSet(
		fieldpath.MakePathOrDie("apiVersion"),
		fieldpath.MakePathOrDie("kind"),
		fieldpath.MakePathOrDie("metadata"),
	)
	for _, name := range []string{
		"name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName",
		"generation", "managedFields", "resourceVersion",
	} {
		set.Insert(fieldpath.MakePathOrDie("metadata", name))
	}
	return set
}
