package plan

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// entry is one entry of managedFields with its set read.
type entry struct {
	manager string
	applied bool
	set     *fieldpath.Set
}

// managed reads the managedFields of an object itself; those of its
// subresources are left out.
func managed(object *unstructured.Unstructured) ([]entry, error) {
	var entries []entry
	for _, written := range object.GetManagedFields() {
		if written.Subresource != "" {
			continue
		}
		set, err := fieldsOf(written.FieldsV1)
		if err != nil {
			return nil, fmt.Errorf("read managedFields of manager %q on %s/%s: %w", written.Manager, object.GetKind(), object.GetName(), err)
		}
		entries = append(entries, entry{
			manager: written.Manager,
			applied: written.Operation == metav1.ManagedFieldsOperationApply,
			set:     set,
		})
	}
	return entries, nil
}

// appliedBy returns the set that a manager has applied; nil where it has not.
func appliedBy(entries []entry, manager string) *fieldpath.Set {
	for _, e := range entries {
		if e.applied && e.manager == manager {
			return e.set
		}
	}
	return nil
}

// Applied says whether we have applied the object. An object that was copied
// from ours bears the label, and has no such entry.
func Applied(object *unstructured.Unstructured) bool {
	for _, written := range object.GetManagedFields() {
		if written.Manager == v1alpha1.FieldManager && written.Operation == metav1.ManagedFieldsOperationApply && written.Subresource == "" {
			return true
		}
	}
	return false
}

// touches says whether a set has a field, something within it, or the whole
// that it is a part of.
func touches(set *fieldpath.Set, path []string) bool {
	for i := range path {
		element := fieldpath.PathElement{FieldName: &path[i]}
		below := set.WithPrefix(element)
		if below.Empty() {
			// Either a leaf of the set, with the field in it, or nothing.
			return set.Members.Has(element)
		}
		set = below
	}
	return true
}
