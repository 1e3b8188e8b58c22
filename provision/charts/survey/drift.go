package survey

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Drift is what was changed of an object that a chart made.
type Drift struct {
	// Object is its kind and name, such as "Deployment kube-system/karpenter".
	Object string
	// Deleted says that it is gone or terminating; by whom is recorded nowhere.
	Deleted bool
	// Fields are those that are not as the chart has them, in order.
	Fields []string
	// Editor is the field manager that wrote one of them last, and Operation how: Apply
	// or Update. Empty where that is unknown: removing a field leaves no trace.
	Editor, Operation string
	// At is when; zero where that is unknown.
	At time.Time
}

// maxFields is how many fields a message names.
const maxFields = 3

// String says what was changed, and by which field manager.
func (d Drift) String() string {
	if d.Deleted {
		return d.Object + " was deleted by an unknown client"
	}
	fields := strings.Join(d.Fields[:min(maxFields, len(d.Fields))], ", ")
	if more := len(d.Fields) - maxFields; more > 0 {
		fields += fmt.Sprintf(" and %d more", more)
	}
	if d.Editor == "" {
		return fmt.Sprintf("%s: %s was changed by an unknown client", d.Object, fields)
	}
	return fmt.Sprintf("%s: %s was edited by %s (%s)", d.Object, fields, d.Editor, d.Operation)
}

// Drifts writes several as one message.
func Drifts(all []Drift) string {
	words := make([]string, 0, len(all))
	for _, d := range all {
		words = append(words, d.String())
	}
	return strings.Join(words, "; ")
}

// Compare finds the fields of an object that are not as the chart has them, and who
// changed them; nil where there is none. Both are typed, so that a quantity is written
// in one way; of other objects nothing is compared. object names it in messages.
func Compare(object string, wanted, live runtime.Object, managers []metav1.ManagedFieldsEntry) (*Drift, error) {
	fields, err := lacking(wanted, live)
	if err != nil {
		return nil, fmt.Errorf("compare %s with its manifest: %w", object, err)
	}
	if len(fields) == 0 {
		return nil, nil
	}
	d, err := edited(object, fields, managers)
	return &d, err
}

// edited names the field manager that changed fields of an object: of those that own one
// of them, the one that wrote last.
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

// owned are the fields of an object that a field manager owns.
func owned(entry metav1.ManagedFieldsEntry, object string) (*fieldpath.Set, error) {
	owns := &fieldpath.Set{}
	if err := owns.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("read what manager %q owns of %s: %w", entry.Manager, object, err)
	}
	return owns, nil
}

// touches says whether a set has a field, something within it, or the whole that
// it is a part of.
func touches(set *fieldpath.Set, path fieldpath.Path) bool {
	for _, element := range path {
		below := set.WithPrefix(element)
		if below.Empty() {
			return set.Members.Has(element) // a leaf of the set, with the field in it, or nothing
		}
		set = below
	}
	return true
}
