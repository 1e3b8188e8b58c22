package render

import (
	"context"
	"io/fs"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// RefOf returns the Ref of an object in a Set.
func RefOf(object *unstructured.Unstructured) Ref {
	return RefTo(object.GetKind(), object)
}

// wanted is what a walk depends on, besides the files.
type wanted struct {
	name, charts string
	nodes, files []string
}

func (w wanted) equal(other wanted) bool {
	return w.name == other.name && w.charts == other.charts && slices.Equal(w.nodes, other.nodes) && slices.Equal(w.files, other.files)
}

// rendition is a Set, with what is needed to derive the next one from it.
type rendition struct {
	of  wanted
	set *Set
	// files are those that it was made from, or others in which all its inputs are the same.
	files fs.FS
	// walked are the inputs by which the sources were found, and inputs are all except those of WithInputs.
	walked, inputs Inputs
	// linked are the inputs that symlinks lead to.
	linked []string
	// wide are the sources that are made from more than the file of their name.
	wide []source
	// warned are the sources with remarks, and unread the warnings about files that are not sources.
	warned []source
	unread []string
}

// rendition returns the result of a render. It has no files if the file system cannot tell how it differs from another
// one.
func (r *run) rendition(of wanted, walked Inputs, set *Set) *rendition {
	last := &rendition{of: of, set: set, walked: walked, inputs: r.tree.inputs}
	var known bool
	if last.linked, known = r.snap.linked(r.tree.inputs); !known {
		return last
	}
	last.files = untimed(r.snap.FS)
	for one, what := range r.after {
		last.note(one, what)
	}
	return last
}

// finish completes the Set with its configuration and with what else was read for it.
func (l *rendition) finish(k *Karpenter, beside Inputs, snap Snapshot) {
	l.set.Karpenter = *k
	if len(beside) > 0 {
		l.include(beside, snap)
	}
	l.set.Linked, l.set.LinksKnown = l.linked, l.files != nil
	l.set.Sum = l.set.Inputs.Fingerprint()
}

// include adds what was read besides the render to the inputs.
func (l *rendition) include(beside Inputs, snap Snapshot) {
	l.set.Inputs = l.inputs.clone()
	l.set.Inputs.add(beside)
	linked, _ := snap.linked(beside)
	for _, name := range linked {
		if !slices.Contains(l.linked, name) {
			l.linked = append(slices.Clone(l.linked), name)
		}
	}
}

// note records whether a source has more inputs than its file, and whether it has remarks.
func (l *rendition) note(one source, what kept) {
	if _, itself := what.inputs[one.name]; one.kustomize || !itself || len(what.inputs) > 1 {
		l.wide = append(l.wide, one)
	}
	if !what.none() {
		l.warned = append(l.warned, one)
	}
}

// made reports whether a Set is the one that was rendered last, of any revision.
func (l *rendition) made(set *Set) bool {
	return len(set.Objects) > 0 && len(set.Objects) == len(l.set.Objects) && &set.Objects[0] == &l.set.Objects[0]
}

// deriveFromLast derives the Set from the last one if the differences are known: of ten thousand sources only the few
// that may differ are rendered. It returns nil if that is not enough; a full render then reports what is wrong.
func (r *run) deriveFromLast(ctx context.Context, last *rendition) (*rendition, map[source]kept) {
	if last == nil {
		return nil, nil
	}
	difference, known := r.snap.differs(last.files)
	if !known || len(difference.Below) > 0 { // below there may be links, and other files
		return nil, nil
	}
	if same, err := difference.Among(last.walked, last.linked).Unchanged(r.snap); err != nil || !same {
		return nil, nil
	}
	taken := map[source]kept{}
	for _, one := range last.touched(difference, r.before) {
		now, errs, err := r.renderSource(ctx, one)
		if err != nil || len(errs) > 0 || !sameNames(now.inputs, r.before[one].inputs) {
			return nil, nil
		}
		taken[one] = now
	}
	return r.replaced(last, taken), taken
}

// touched returns the sources that may differ.
func (l *rendition) touched(d Difference, known map[source]kept) []source {
	found := map[source]bool{}
	for _, name := range slices.Concat(d.At, l.linked) {
		for _, one := range []source{{name: name}, {name: name, listed: true}} {
			if _, is := known[one]; is {
				found[one] = true
			}
		}
	}
	for _, one := range l.wide {
		if !found[one] && len(d.Among(known[one].inputs, l.linked)) > 0 {
			found[one] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// replaced returns the last rendition with the new sources; nil if the Set has errors.
func (r *run) replaced(last *rendition, taken map[source]kept) *rendition {
	next := &rendition{of: last.of, files: untimed(r.snap.FS), walked: last.walked, linked: last.linked, wide: last.wide, unread: last.unread}
	r.warnings = append(r.warnings, last.unread...)
	r.tree.inputs = last.inputs.clone()
	left := map[Ref]bool{}
	for one, now := range taken {
		for _, before := range r.before[one].objects {
			left[before.Ref] = true
		}
		r.tree.inputs.add(now.inputs)
		if !now.none() {
			next.warned = append(next.warned, one)
		}
		r.add(now.remarks)
	}
	for _, one := range last.warned {
		if _, again := taken[one]; !again {
			next.warned = append(next.warned, one)
			r.add(r.before[one].remarks)
		}
	}
	r.objects = exchanged(last.set.Objects, left, taken)
	set, err := r.conclude(last.of.name)
	if err != nil {
		return nil
	}
	next.set, next.inputs = set, r.tree.inputs
	return next
}

// exchanged returns objects without those in left, and with those that the sources have now: each in the place of the
// one with the same name, so that the order seldom changes.
func exchanged(objects []Object, left map[Ref]bool, taken map[source]kept) []Object {
	now := map[Ref][]Object{}
	for _, what := range taken {
		for _, one := range what.objects {
			now[one.Ref] = append(now[one.Ref], one.Object)
		}
	}
	all := make([]Object, 0, len(objects)+len(now))
	for i := range objects {
		ref := objects[i].Ref
		if !left[ref] {
			all = append(all, objects[i])
			continue
		}
		all = append(all, now[ref]...)
		delete(now, ref)
	}
	for _, more := range now {
		all = append(all, more...)
	}
	return all
}

// sameNames reports whether the same names were read.
func sameNames(a, b Inputs) bool {
	if len(a) != len(b) {
		return false
	}
	for name := range a {
		if _, is := b[name]; !is {
			return false
		}
	}
	return true
}
