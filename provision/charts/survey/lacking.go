package survey

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// lacking are the fields of its manifest that a live object lacks, or has
// otherwise: what an upgrade to the same chart would write. Typed objects are
// compared, which write a quantity in only one way.
func lacking(wanted, live runtime.Object) ([]fieldpath.Path, error) {
	if _, untyped := wanted.(runtime.Unstructured); untyped {
		return nil, nil // Helm compares such only with the last manifest, and would write nothing
	}
	wants, err := written(wanted)
	if err != nil {
		return nil, err
	}
	has, err := written(live)
	if err != nil {
		return nil, err
	}
	return missing(nil, wants, has), nil
}

// missing are the fields of what is wanted that are not there. Fields that others
// add are no matter, nor are elements that others add to a list whose elements
// have names, such as containers and variables. Another list counts as a whole.
func missing(at fieldpath.Path, wanted, live any) []fieldpath.Path {
	switch wanted := wanted.(type) {
	case map[string]any:
		if live, ok := live.(map[string]any); ok {
			return missingOfMap(at, wanted, live)
		}
	case []any:
		if live, ok := live.([]any); ok {
			return missingOfList(at, wanted, live)
		}
	default:
		if reflect.DeepEqual(wanted, live) {
			return nil
		}
	}
	return []fieldpath.Path{at}
}

func missingOfMap(at fieldpath.Path, wanted, live map[string]any) []fieldpath.Path {
	var found []fieldpath.Path
	for key, value := range wanted {
		if value != nil {
			found = append(found, missing(below(at, fieldpath.PathElement{FieldName: &key}), value, live[key])...)
		}
	}
	return found
}

func missingOfList(at fieldpath.Path, wanted, live []any) []fieldpath.Path {
	names := named(live)
	if names == nil && len(wanted) != len(live) {
		return []fieldpath.Path{at}
	}
	var found []fieldpath.Path
	for n, element := range wanted {
		switch {
		case names != nil:
			key := value.FieldList{{Name: "name", Value: value.NewValueInterface(name(element))}}
			found = append(found, missing(below(at, fieldpath.PathElement{Key: &key}), element, names[name(element)])...)
		case len(missing(at, element, live[n])) > 0:
			return []fieldpath.Path{at}
		}
	}
	return found
}

func below(at fieldpath.Path, element fieldpath.PathElement) fieldpath.Path {
	return append(at.Copy(), element)
}

// named are the elements of a list by their names; nil where one has none.
func named(list []any) map[string]any {
	found := map[string]any{}
	for _, value := range list {
		if name(value) == "" {
			return nil
		}
		found[name(value)] = value
	}
	return found
}

func name(value any) string {
	fields, _ := value.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}

// written is an object without what no client writes: its status and its creation time.
// A typed object has both, empty.
func written(object runtime.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	return fields, nil
}
