package changes

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// forms are the definitions of a Set, with the schema's defaults, as each was in the
// cluster last.
type forms struct {
	// objects are the Set's. A commit that changes none of them renders to the same
	// slice.
	objects []render.Object
	of      map[render.Ref]*unstructured.Unstructured
	// behind are those of the Set that are not in the cluster as Git has them.
	behind map[render.Ref]bool
}

// Forms are the definitions that are, or were last, in the cluster as Git has them.
func (m *Memory) Forms() map[render.Ref]*unstructured.Unstructured { return m.forms.of }

// noteForms notes each definition that is in the cluster as Git has it now, or was
// until another controller changed it. For a Set that was noted before, it costs what
// differs, not what the Set has.
func (s *Step) noteForms() {
	behind := map[render.Ref]bool{}
	for i := range s.Plan.Changes {
		if !s.Plan.Changes[i].Drift {
			behind[s.Plan.Changes[i].Ref] = true
		}
	}
	for _, w := range s.applied.Written {
		delete(behind, w.Ref)
	}
	s.Memory.forms = s.Memory.forms.next(s.Set, behind)
}

// next are the forms after a pass over a Set, of which some are behind.
func (f forms) next(set *render.Set, behind map[render.Ref]bool) forms {
	if len(set.Objects) == 0 || len(f.objects) != len(set.Objects) || &f.objects[0] != &set.Objects[0] {
		return f.over(set, behind)
	}
	if len(f.behind) == 0 {
		f.behind = behind
		return f
	}
	for _, object := range set.Objects {
		if f.behind[object.Ref] && !behind[object.Ref] {
			f.of[object.Ref] = object.Defaulted
		}
	}
	f.behind = behind
	return f
}

// over are the forms after the first pass over a Set.
func (f forms) over(set *render.Set, behind map[render.Ref]bool) forms {
	next := forms{objects: set.Objects, of: make(map[render.Ref]*unstructured.Unstructured, len(set.Objects)), behind: behind}
	for _, object := range set.Objects {
		if !behind[object.Ref] {
			next.of[object.Ref] = object.Defaulted
		} else if last, known := f.of[object.Ref]; known {
			next.of[object.Ref] = last
		}
	}
	return next
}
