package render

import (
	"cmp"
	"fmt"
	"slices"
)

// inOrder sorts objects by Stage and name, wherever they were written.
func inOrder(objects []Object) {
	rank := map[string]int{}
	for i, kind := range Kinds() {
		rank[kind.GVK.Kind] = i
	}
	slices.SortStableFunc(objects, func(a, b Object) int {
		return cmp.Or(
			cmp.Compare(rank[a.Ref.Kind], rank[b.Ref.Kind]),
			cmp.Compare(a.Ref.Name, b.Ref.Name),
			cmp.Compare(a.Origin.File, b.Origin.File),
			cmp.Compare(a.Origin.Line, b.Origin.Line),
		)
	})
}

// duplicates finds objects that are written twice, in sorted objects.
func duplicates(objects []Object) Errors {
	var errs Errors
	for i := 1; i < len(objects); i++ {
		first, second := objects[i-1], objects[i]
		if first.Ref == second.Ref {
			errs = append(errs, Error{
				File: second.Origin.File, Line: second.Origin.Line,
				Message: fmt.Sprintf("%s is defined twice, first in %s", second.Ref, first.Origin),
			})
		}
	}
	return errs
}
