package survey

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Ignore names fields of the charts' objects that other controllers or users may change:
// they are neither compared nor written once the object exists.
type Ignore struct {
	// Kind of the objects, and Name; an empty one means all of the kind.
	Kind, Name string
	// JSONPointers lead to fields, by RFC 6901. One to a field that does not exist is skipped.
	JSONPointers []string
	// Managers are field managers: fields that one of them owns are ignored.
	Managers []string
}

// Replicas leaves the number of a Deployment's replicas to autoscalers and users.
func Replicas() Ignore {
	return Ignore{Kind: "Deployment", JSONPointers: []string{"/spec/replicas"}}
}

// Preserve changes what is wanted of an object to what the live object has, in the ignored
// fields.
func Preserve(wanted, live *unstructured.Unstructured, ignored []Ignore) error {
	for _, i := range ignored {
		if i.Kind != wanted.GetKind() || i.Name != "" && i.Name != wanted.GetName() {
			continue
		}
		for _, pointer := range i.JSONPointers {
			preserveField(wanted.Object, live.Object, steps(pointer))
		}
		for _, entry := range live.GetManagedFields() {
			if entry.FieldsV1 == nil || !slices.Contains(i.Managers, entry.Manager) {
				continue
			}
			owns, err := owned(entry, live.GetKind()+" "+live.GetName())
			if err != nil {
				return err
			}
			for path := range owns.Leaves().All() {
				if wanted.GetKind() == crdKind && fieldpath.MakePathOrDie("spec", "versions").Equals(path[:min(2, len(path))]) {
					continue // a CRD whose schema is not the chart's does not fit its controller
				}
				preserveField(wanted.Object, live.Object, path)
			}
		}
	}
	return nil
}

// steps are those of a JSON pointer. A step into a list is a number, which only
// the list can tell.
func steps(pointer string) fieldpath.Path {
	var path fieldpath.Path
	for _, token := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		path = append(path, fieldpath.PathElement{FieldName: &token})
	}
	return path
}

// preserveField gives one field that is wanted the value that it has, or takes it
// out where it has none.
func preserveField(wanted, live any, path fieldpath.Path) {
	for len(path) > 1 {
		wanted, live, path = reach(wanted, path[0]), reach(live, path[0]), path[1:]
	}
	has := reach(live, path[0])
	switch wanted := wanted.(type) {
	case map[string]any:
		name := path[0].FieldName
		if name == nil || wanted[*name] == nil {
			return
		}
		if has == nil {
			delete(wanted, *name)
			return
		}
		wanted[*name] = runtime.DeepCopyJSONValue(has)
	case []any:
		if n := position(wanted, path[0]); n >= 0 && has != nil {
			wanted[n] = runtime.DeepCopyJSONValue(has)
		}
	}
}

// reach is what a step leads to; nil where to nothing.
func reach(container any, step fieldpath.PathElement) any {
	switch container := container.(type) {
	case map[string]any:
		if step.FieldName != nil {
			return container[*step.FieldName]
		}
	case []any:
		if n := position(container, step); n >= 0 {
			return container[n]
		}
	}
	return nil
}

// position is that in a list that a step leads to, -1 for none: by number, or
// by the fields that tell its elements apart, of which an object in a chart may
// leave out those that have a default.
func position(list []any, step fieldpath.PathElement) int {
	switch {
	case step.FieldName != nil:
		if n, err := strconv.Atoi(*step.FieldName); err == nil && n >= 0 && n < len(list) {
			return n
		}
	case step.Key != nil:
		return slices.IndexFunc(list, func(element any) bool {
			fields, ok := element.(map[string]any)
			return ok && !slices.ContainsFunc(*step.Key, func(key value.Field) bool {
				has, given := fields[key.Name]
				return given && fmt.Sprint(has) != fmt.Sprint(key.Value.Unstructured())
			})
		})
	}
	return -1
}
