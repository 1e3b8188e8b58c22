package render

import (
	"context"
	"io/fs"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unique"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Values hold once what many objects have: the same requirement stands in hundreds
// of NodePools, and a definition in Git and in the cluster. What they hand out is shared,
// and read only. The zero value is ready, and nil shares nothing but keys.
type Values struct {
	mu    sync.Mutex
	held  map[string]any
	named named
}

const (
	// longestHeld is how long the text of a value is at most that is held once.
	// Longer ones have a name in them, as a rule.
	longestHeld = 256
	// mostHeld bounds what is held, whether it is used any more or not: then all of
	// it is released, and what is shared already stays so.
	mostHeld = 4096
	// few is how many parts a value has, as a rule: a walk keeps so many without memory of the
	// heap, as most of what it walks is known.
	few = 16
)

// Once returns a value of JSON that equals the given one and takes the least
// memory: parts that were seen before are held once, and so are all keys.
func (v *Values) Once(value any) any {
	made, _, _ := v.once(value, models{}, make([]byte, 0, 2*longestHeld))
	return made
}

// models are values whose parts are taken where a value has the same in the same place.
type models [2]any

// matches says which of some models equal a value, a bit for each.
type matches uint

// once appends a text to text, too, that no other value has, about as long as its JSON: at least so
// much of it that it is too long to be held where it is.
func (v *Values) once(value any, like models, text []byte) (made any, _ []byte, equal matches) {
	switch was := value.(type) {
	case map[string]any:
		return v.object(was, like, text)
	case []any:
		return v.list(was, like, text)
	case string:
		text = appendText(text, was)
	case int64:
		text = strconv.AppendInt(text, was, 10)
	case bool:
		text = strconv.AppendBool(text, was)
	default:
		// Fractions and nulls are too rare to have a text that no other value has.
		return value, append(text, tooLong...), 0
	}
	for i := range like {
		if like[i] == value {
			value, equal = like[i], equal|1<<i
		}
	}
	return value, text, equal
}

// appendText appends a string behind its length: nothing that follows is taken for a part of it.
// Of one that is too long to be held no more is kept than says so.
func appendText(text []byte, s string) []byte {
	s = s[:min(len(s), longestHeld)]
	return append(append(text, '"', byte(min(len(s), math.MaxUint8))), s...)
}

// tooLong is a text with which nothing is held.
var tooLong = strings.Repeat(" ", longestHeld+1)

func (v *Values) object(was map[string]any, like models, text []byte) (made any, _ []byte, equal matches) {
	var of [len(models{})]map[string]any
	for i := range like {
		of[i], _ = like[i].(map[string]any)
		if of[i] != nil && len(of[i]) == len(was) {
			equal |= 1 << i
		}
	}
	var names [few]string
	keys := slices.AppendSeq(names[:0], maps.Keys(was))
	slices.Sort(keys)
	var parts [few]any
	fields, all := parts[:0], written{text, len(text)}
	all.append('{')
	for _, key := range keys {
		var below models
		for i := range of {
			below[i] = of[i][key]
		}
		all.text = appendText(all.text, key)
		var same matches
		var field any
		field, all.text, same = v.once(was[key], below, all.text)
		fields, equal = append(fields, field), equal&same
		all.append(',')
	}
	all.append('}')
	if equal != 0 {
		return equal.first(like), all.text, equal
	}
	if known, found := v.known(all.own()); found {
		return known, all.text, 0
	}
	object := make(map[string]any, len(keys))
	for n, key := range keys {
		object[unique.Make(key).Value()] = fields[n]
	}
	return v.hold(all.own(), object), all.text, 0
}

func (v *Values) list(was []any, like models, text []byte) (made any, _ []byte, equal matches) {
	var of [len(models{})][]any
	for i := range like {
		of[i], _ = like[i].([]any)
		if of[i] != nil && len(of[i]) == len(was) {
			equal |= 1 << i
		}
	}
	var parts [few]any
	items, all := parts[:0], written{text, len(text)}
	all.append('[')
	for n := range was {
		var below models
		for i := range of {
			if n < len(of[i]) {
				below[i] = of[i][n]
			}
		}
		var same matches
		var item any
		item, all.text, same = v.once(was[n], below, all.text)
		items, equal = append(items, item), equal&same
		all.append(',')
	}
	all.append(']')
	if equal != 0 {
		return equal.first(like), all.text, equal
	}
	if known, found := v.known(all.own()); found {
		return known, all.text, 0
	}
	return v.hold(all.own(), append(make([]any, 0, len(items)), items...)), all.text, 0
}

// written is the text of a value behind that of what it is part of.
type written struct {
	text []byte
	from int
}

func (w *written) own() []byte { return w.text[w.from:] }

// append appends a character. Of a text that is too long to be held no more is kept than says so.
func (w *written) append(mark byte) {
	w.text = append(w.text, mark)
	w.text = w.text[:min(len(w.text), w.from+len(tooLong))]
}

// first is the first of the models that are equal.
func (m matches) first(like models) any { return like[bits.TrailingZeros(uint(m))] }

// known returns the value of a text, where one is held.
func (v *Values) known(text []byte) (value any, found bool) {
	if v == nil || len(text) > longestHeld {
		return nil, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	value, found = v.held[string(text)] // without a copy
	return value, found
}

// hold holds a value of a text, and returns it, or the one that another goroutine has held by now.
func (v *Values) hold(text []byte, value any) any {
	if v == nil || len(text) > longestHeld {
		return value
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.held[string(text)]; ok {
		return known
	}
	if v.held == nil || len(v.held) >= mostHeld {
		v.held = map[string]any{}
	}
	v.held[string(text)] = value
	return value
}

// named are the objects that were seen last under their names, in Git or in the cluster,
// as long as they are in use.
type named struct {
	of map[Ref]weak.Pointer[unstructured.Unstructured]
	// kept is how many there were when those that are not in use were left out last.
	kept int
}

// leastNamed is from how many names on those that are not in use are left out.
const leastNamed = 1024

// Share has an object, which nobody else has seen, take the parts that the one that was
// seen last under its name has too. A definition that is as Git says has most of them in common with Git's.
func (v *Values) Share(object *unstructured.Unstructured) {
	object.Object = v.like(object.Object, v.last(object), nil)
	v.see(object)
}

// like is Once for an object that may be much like others.
func (v *Values) like(object, first, second map[string]any) map[string]any {
	made, _, _ := v.once(object, models{first, second}, nil)
	held, _ := made.(map[string]any)
	return held
}

// last is what was seen last under the name of an object; nil if that is not in use.
func (v *Values) last(object *unstructured.Unstructured) map[string]any {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if last := v.named.of[RefOf(object)].Value(); last != nil {
		return last.Object
	}
	return nil
}

// see notes an object, which does not keep it in use.
func (v *Values) see(object *unstructured.Unstructured) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.named.of == nil {
		v.named.of = map[Ref]weak.Pointer[unstructured.Unstructured]{}
	}
	v.named.of[RefOf(object)] = weak.Make(object)
	if len(v.named.of) > max(2*v.named.kept, leastNamed) {
		maps.DeleteFunc(v.named.of, func(_ Ref, of weak.Pointer[unstructured.Unstructured]) bool { return of.Value() == nil })
		v.named.kept = len(v.named.of)
	}
}

// RefOf is the name of an object in a Set.
func RefOf(object *unstructured.Unstructured) Ref {
	return Ref{Kind: object.GetKind(), Name: object.GetName()}
}

// wanted is what a walk goes by, beside the files.
type wanted struct {
	name, charts string
	nodes, files []string
}

func (w wanted) equal(other wanted) bool {
	return w.name == other.name && w.charts == other.charts && slices.Equal(w.nodes, other.nodes) && slices.Equal(w.files, other.files)
}

// rendition is a Set with what the next one needs to be made of it.
type rendition struct {
	of  wanted
	set *Set
	// files are those that it was made of, or others in which all of it is as it was.
	files fs.FS
	// walked are the inputs by which the sources were found, and inputs all but those that
	// WithInputs has added.
	walked, inputs Inputs
	// linked are the inputs that symlinks lead to.
	linked []string
	// wide are the sources that are made of more than the file of their name.
	wide []source
	// warned are the sources with remarks, and unread the warnings about files that are no sources.
	warned []source
	unread []string
}

// rendition is the result of a render. It has no files if the file system does not know how it
// differs from another one.
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

// finish completes the Set by what is no part of the render: its configuration, and what else was
// read to make it.
func (l *rendition) finish(k *Karpenter, beside Inputs, snap Snapshot) {
	l.set.Karpenter = *k
	if len(beside) > 0 {
		l.include(beside, snap)
	}
	l.set.Linked, l.set.LinksKnown = l.linked, l.files != nil
	l.set.Sum = l.set.Inputs.Fingerprint()
}

// include counts what was read beside the render among the inputs.
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

// note keeps of a source whether it has more than its file, and whether there are remarks on it.
func (l *rendition) note(one source, what kept) {
	if _, itself := what.inputs[one.name]; one.kustomize || !itself || len(what.inputs) > 1 {
		l.wide = append(l.wide, one)
	}
	if !what.none() {
		l.warned = append(l.warned, one)
	}
}

// made reports whether a Set is the one that was rendered last, of whichever revision.
func (l *rendition) made(set *Set) bool {
	return len(set.Objects) > 0 && len(set.Objects) == len(l.set.Objects) && &set.Objects[0] == &l.set.Objects[0]
}

// again makes the Set out of the last one, where it is known what differs since: of ten thousand
// sources the few are taken that something of differs. It returns nil if that is not enough;
// a render of all of it says then what is wrong.
func (r *run) again(ctx context.Context, last *rendition) (*rendition, map[source]kept) {
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
		now, errs, err := r.take(ctx, one)
		if err != nil || len(errs) > 0 || !sameNames(now.inputs, r.before[one].inputs) {
			return nil, nil
		}
		taken[one] = now
	}
	return r.replaced(last, taken), taken
}

// touched are the sources of which something may differ.
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

// replaced is the last rendition with sources that were taken again; nil if there is
// something to say against the Set.
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

// exchanged are objects without those that left, and with those that sources have now: in the place
// of the one that had the same name, so that their order seldom changes.
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

// sameNames reports whether the same was read.
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
