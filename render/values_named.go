package render

import (
	"maps"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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

// last is what was seen last under the name of an object; nil where that is not in use.
func (v *Values) last(object *unstructured.Unstructured) map[string]any {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if last := v.named.of[refOf(object)].Value(); last != nil {
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
	v.named.of[refOf(object)] = weak.Make(object)
	if len(v.named.of) > max(2*v.named.kept, leastNamed) {
		maps.DeleteFunc(v.named.of, func(_ Ref, of weak.Pointer[unstructured.Unstructured]) bool { return of.Value() == nil })
		v.named.kept = len(v.named.of)
	}
}

func refOf(object *unstructured.Unstructured) Ref {
	return Ref{Kind: object.GetKind(), Name: object.GetName()}
}
