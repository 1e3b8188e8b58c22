package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// inOrder sorts objects by Stage and name, wherever they were written.
func inOrder(objects []Object) {
	rank := map[string]int{}
	for i, kind := range Kinds() {
		rank[kind.GVK.Kind] = i
	}
	// A place is small to move, and an object is not.
	places := make([]place, len(objects))
	for i := range objects {
		places[i] = place{stage: rank[objects[i].Ref.Kind], at: i, object: &objects[i]}
	}
	compare := func(a, b place) int {
		if order := cmp.Compare(a.stage, b.stage); order != 0 {
			return order
		}
		if order := strings.Compare(a.object.Ref.Name, b.object.Ref.Name); order != 0 {
			return order
		}
		return cmp.Or(
			strings.Compare(a.object.Origin.File, b.object.Origin.File),
			cmp.Compare(a.object.Origin.Line, b.object.Origin.Line),
			cmp.Compare(a.at, b.at),
		)
	}
	if slices.IsSortedFunc(places, compare) {
		return
	}
	slices.SortFunc(places, compare)
	sorted := make([]Object, len(objects))
	for i, p := range places {
		sorted[i] = *p.object
	}
	copy(objects, sorted)
}

// place is where an object stands.
type place struct {
	stage, at int
	object    *Object
}

// duplicates finds objects that are written twice, in sorted objects.
func duplicates(objects []Object) Errors {
	var errs Errors
	for i := 1; i < len(objects); i++ {
		first, second := &objects[i-1], &objects[i]
		if first.Ref == second.Ref {
			errs = append(errs, Error{
				File: second.Origin.File, Line: second.Origin.Line,
				Message: fmt.Sprintf("%s is defined twice, first in %s", second.Ref, first.Origin),
			})
		}
	}
	return errs
}
