package plan

import (
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// mark is what plumbline's own apply has written on an object.
type mark int

const (
	// unmarked: plumbline has not applied it, as far as can be read.
	unmarked mark = iota
	// unlabelled: it has, and the ownership label is not from that.
	unlabelled
	// labelled: it has, with the ownership label.
	labelled
)

// markOf reads a mark from what plumbline has applied; nil where that is nothing.
func markOf(applied *fieldpath.Set) mark {
	switch {
	case applied == nil:
		return unmarked
	case touches(applied, ownerLabelPath()):
		return labelled
	}
	return unlabelled
}

// mark is that of the object. Of managedFields that cannot be read nobody can tell, so nothing
// is taken away.
func (o *Object) mark() mark {
	o.read.Do(func() {
		if entries, err := managed(o.Unstructured); err == nil {
			o.marked = markOf(appliedBy(entries, v1alpha1.FieldManager))
		}
	})
	return o.marked
}

// marks spares the object to read again what plumbline has applied; nil where that is nothing.
func (o *Object) marks(applied *fieldpath.Set) {
	o.read.Do(func() { o.marked = markOf(applied) })
}
