package charts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Move is what somebody did to an object that a chart made.
type Move struct {
	// Object is its kind and name, such as "Deployment kube-system/karpenter".
	Object string
	// Deleted says that it is gone, or going; who did it is kept nowhere.
	Deleted bool
	// Fields are those that are not as the chart has them, in order.
	Fields []string
	// Editor is the field manager that wrote one of them last, and Operation how: Apply
	// or Update. Empty where that is not kept: who takes a field out leaves no trace.
	Editor, Operation string
	// At is when; zero where that is not kept.
	At time.Time
}

// maxFields is how many fields a message names.
const maxFields = 3

// String says what was done, and by whom.
func (m Move) String() string {
	if m.Deleted {
		return m.Object + " was deleted, by whom is not kept"
	}
	fields := strings.Join(m.Fields[:min(maxFields, len(m.Fields))], ", ")
	if more := len(m.Fields) - maxFields; more > 0 {
		fields += fmt.Sprintf(" and %d more", more)
	}
	if m.Editor == "" {
		return fmt.Sprintf("%s: %s was changed, by whom is not kept", m.Object, fields)
	}
	return fmt.Sprintf("%s: %s was edited by %s (%s)", m.Object, fields, m.Editor, m.Operation)
}

// Moves writes several as one message.
func Moves(moves []Move) string {
	words := make([]string, 0, len(moves))
	for _, m := range moves {
		words = append(words, m.String())
	}
	return strings.Join(words, "; ")
}

// edited says who changed fields of an object: whoever of those that own one of
// them has written last.
func edited(object string, fields []fieldpath.Path, managers []metav1.ManagedFieldsEntry) (Move, error) {
	m := Move{Object: object}
	for _, path := range fields {
		m.Fields = append(m.Fields, strings.TrimPrefix(path.String(), "."))
	}
	slices.Sort(m.Fields)
	for _, entry := range managers {
		if entry.FieldsV1 == nil || entry.Time == nil || entry.Time.Time.Before(m.At) {
			continue
		}
		owns, err := owned(entry, object)
		if err != nil {
			return Move{}, err
		}
		if slices.ContainsFunc(fields, func(path fieldpath.Path) bool { return touches(owns, path) }) {
			m.Editor, m.Operation, m.At = entry.Manager, string(entry.Operation), entry.Time.Time
		}
	}
	return m, nil
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
