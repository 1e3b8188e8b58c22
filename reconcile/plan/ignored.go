package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Wanted is what the object is to be: Git's, with the schema's defaults, and where it lives with
// the fields that others may change as they live. Read only.
func (c *Change) Wanted() *unstructured.Unstructured {
	if c.wanted == nil {
		return c.Object.Defaulted
	}
	return c.wanted
}

// ignoring is Git's object with the fields that are ignored as they live; the very object where
// none is.
func ignoring(object render.Object, live *unstructured.Unstructured) *unstructured.Unstructured {
	if len(object.Ignored) == 0 {
		return object.Defaulted
	}
	wanted := object.Defaulted.DeepCopy()
	for _, path := range object.Ignored {
		setAs(wanted, live, path)
	}
	if spec, ok := wanted.Object["spec"].(map[string]any); ok {
		dropEmpty(spec)
	}
	return wanted
}

// setAs gives an object the value that a field has in another one, or takes it away. What stands
// in the way of the field on one of the two sides is another difference.
func setAs(object, like *unstructured.Unstructured, path []string) {
	value, found, err := unstructured.NestedFieldCopy(like.Object, path...)
	switch {
	case err != nil:
	case found:
		_ = unstructured.SetNestedField(object.Object, value, path...)
	default:
		unstructured.RemoveNestedField(object.Object, path...)
	}
}

// LeaveIgnored takes the ignored fields out of what is applied to an object that lives: they
// belong to those who have written them. One that nobody but plumbline's own apply has written
// stays in it as it lives, as the API server takes away what an apply leaves out that no
// other manager owns; kept says that there is one.
func (c *Change) LeaveIgnored(desired *unstructured.Unstructured) (kept bool, err error) {
	if len(c.Object.Ignored) == 0 {
		return false, nil
	}
	entries, err := managed(c.Live)
	if err != nil {
		return false, err
	}
	mine := appliedBy(entries, v1alpha1.FieldManager)
	others := slices.DeleteFunc(entries, func(e entry) bool { return e.applied && e.manager == v1alpha1.FieldManager })
	for _, path := range c.Object.Ignored {
		unstructured.RemoveNestedField(desired.Object, path...)
		for _, leaf := range leavesAt(mine, path) {
			if !slices.ContainsFunc(others, func(e entry) bool { return touches(e.set, leaf) }) {
				setAs(desired, c.Live, leaf)
				kept = true
			}
		}
	}
	for _, part := range []string{"metadata", "spec"} {
		if fields, ok := desired.Object[part].(map[string]any); ok {
			dropEmpty(fields)
		}
	}
	return kept, nil
}

// leavesAt are the fields of a set at or below a path, by their map keys; of a whole that
// the path is a part of, the path. A set may be nil.
func leavesAt(set *fieldpath.Set, path []string) [][]string {
	if set == nil {
		return nil
	}
	var found [][]string
	for leaf := range set.Leaves().All() {
		keys := keysOf(leaf)
		switch {
		case begins(keys, path):
			found = append(found, keys)
		case begins(path, keys):
			found = append(found, path)
		}
	}
	return found
}

// keysOf are the map keys of a path, up to the first list.
func keysOf(path fieldpath.Path) []string {
	var keys []string
	for _, element := range path {
		if element.FieldName == nil {
			break
		}
		keys = append(keys, *element.FieldName)
	}
	return keys
}

// begins says whether a path is at or below another.
func begins(path, top []string) bool {
	return len(path) >= len(top) && slices.Equal(path[:len(top)], top)
}

// without is a set without the fields at or below some paths.
func without(set *fieldpath.Set, paths [][]string) *fieldpath.Set {
	if len(paths) == 0 {
		return set
	}
	left := fieldpath.NewSet()
	for _, path := range paths {
		names := make([]any, 0, len(path))
		for _, key := range path {
			names = append(names, key)
		}
		left.Insert(fieldpath.MakePathOrDie(names...))
	}
	return set.RecursiveDifference(left)
}
