package survey

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
)

// Drift describes what was changed in an object of a chart.
type Drift struct {
	// Object is its kind and name, such as "Deployment kube-system/karpenter".
	Object string
	// Deleted reports whether it is gone or terminating; who deleted it is not recorded.
	Deleted bool
	// Fields are those that differ from the chart, sorted.
	Fields []string
	// Editor is the field manager that last wrote one of them, and Operation is Apply or Update. Empty if unknown:
	// removing a field leaves no trace.
	Editor, Operation string
	// At is when; zero if unknown.
	At time.Time
}

// maxFields limits the fields in a message.
const maxFields = 3

// String describes what was changed, and by which field manager.
func (d Drift) String() string {
	if d.Deleted {
		return d.Object + " was deleted by an unknown client"
	}
	fields := shortlist.Join(d.Fields, maxFields, ", ")
	if d.Editor == "" {
		return fmt.Sprintf("%s: %s was changed by an unknown client", d.Object, fields)
	}
	return fmt.Sprintf("%s: %s was edited by %s (%s)", d.Object, fields, d.Editor, d.Operation)
}

// Drifts joins several into one message.
func Drifts(all []Drift) string {
	words := make([]string, 0, len(all))
	for _, d := range all {
		words = append(words, d.String())
	}
	return strings.Join(words, "; ")
}

// Compare returns the fields of an object that differ from the chart, and who changed them; nil if there are none. Both
// objects must be typed, so that quantities are written uniformly; nothing is compared for other objects. object is the
// name for messages.
func Compare(object string, wanted, live runtime.Object, managers []metav1.ManagedFieldsEntry) (*Drift, error) {
	fields, err := missingFields(wanted, live)
	if err != nil {
		return nil, fmt.Errorf("compare %s with its manifest: %w", object, err)
	}
	if len(fields) == 0 {
		return nil, nil
	}
	d, err := edited(object, fields, managers)
	return &d, err
}

// edited returns the Drift with the field manager that changed fields of an object: the last writer of those that own
// one of them.
func edited(object string, fields []fieldpath.Path, managers []metav1.ManagedFieldsEntry) (Drift, error) {
	d := Drift{Object: object}
	for _, path := range fields {
		d.Fields = append(d.Fields, strings.TrimPrefix(path.String(), "."))
	}
	slices.Sort(d.Fields)
	for _, entry := range managers {
		if entry.FieldsV1 == nil || entry.Time == nil || entry.Time.Time.Before(d.At) {
			continue
		}
		owns, err := owned(entry, object)
		if err != nil {
			return Drift{}, err
		}
		if slices.ContainsFunc(fields, func(path fieldpath.Path) bool { return touches(owns, path) }) {
			d.Editor, d.Operation, d.At = entry.Manager, string(entry.Operation), entry.Time.Time
		}
	}
	return d, nil
}

// owned returns the fields of an object that a field manager owns.
func owned(entry metav1.ManagedFieldsEntry, object string) (*fieldpath.Set, error) {
	owns := &fieldpath.Set{}
	if err := owns.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("read what manager %q owns of %s: %w", entry.Manager, object, err)
	}
	return owns, nil
}

// touches reports whether a set contains a field, something within it, or a parent of it.
func touches(set *fieldpath.Set, path fieldpath.Path) bool {
	for _, element := range path {
		below := set.WithPrefix(element)
		if below.Empty() {
			return set.Members.Has(element) // a leaf of the set that contains the field, or nothing
		}
		set = below
	}
	return true
}

// Ignore names fields of the charts' objects that other controllers or users may change: they are neither compared nor
// written once the object exists.
type Ignore struct {
	// Kind and Name of the objects; an empty Name means all of the kind.
	Kind, Name string
	// JSONPointers lead to fields, by RFC 6901. A pointer to a field that does not exist is skipped.
	JSONPointers []string
	// Managers are field managers: fields that one of them owns are ignored.
	Managers []string
}

// Replicas leaves the number of a Deployment's replicas to autoscalers and users.
func Replicas() Ignore {
	return Ignore{Kind: "Deployment", JSONPointers: []string{"/spec/replicas"}}
}

// Preserve copies the live values of ignored fields into the wanted object.
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

// steps returns those of a JSON pointer. A step into a list is a number, which only the list shows.
func steps(pointer string) fieldpath.Path {
	var path fieldpath.Path
	for _, token := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		path = append(path, fieldpath.PathElement{FieldName: &token})
	}
	return path
}

// preserveField copies the live value of one field into the wanted object, or removes the field if there is none.
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

// reach returns what a step leads to; nil if there is nothing.
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

// position returns the index in a list that a step leads to, or -1: by number, or by the keys that identify the
// elements; keys with a default may be missing in a chart's object.
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
