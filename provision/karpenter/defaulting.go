package karpenter

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	apidefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// defaulting compares what two sets of CRDs fill in.
type defaulting struct {
	old, next *shapes
}

// outlook speaks where the new CRDs fill in a part of an object otherwise than
// the old ones: to Karpenter that is a change of the definition.
func (d *defaulting) outlook(object *unstructured.Unstructured, part ...string) Outlook {
	of := object.GetKind() + " " + object.GetName()
	gvk := object.GroupVersionKind()
	old, err := d.old.of(gvk)
	if err != nil {
		return unknown("the defaults of %s by the old CRDs: %v", of, err)
	}
	next, err := d.next.of(gvk)
	if err != nil {
		return unknown("the defaults of %s by the new CRDs: %v", of, err)
	}
	fields := differences(strings.Join(part, "."), filled(object, old, part), filled(object, next, part))
	if len(fields) == 0 {
		return Outlook{}
	}
	return Outlook{Replaced: []string{fmt.Sprintf("%s leaves out %s, which the new CRD fills in otherwise", of, strings.Join(fields, ", "))}}
}

// filled is a part of an object with a schema's defaults.
func filled(object *unstructured.Unstructured, by *structural.Structural, part []string) any {
	whole := object.DeepCopy().Object
	apidefaulting.PruneNonNullableNullsWithoutDefaults(whole, by)
	apidefaulting.Default(whole, by)
	is, _, _ := unstructured.NestedFieldNoCopy(whole, part...)
	return is
}

// differences are the paths at which two values differ, the outermost ones.
func differences(at string, a, b any) []string {
	inA, mapA := a.(map[string]any)
	inB, mapB := b.(map[string]any)
	if mapA && mapB {
		var found []string
		keys := slices.Concat(slices.Collect(maps.Keys(inA)), slices.Collect(maps.Keys(inB)))
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			found = append(found, differences(at+"."+key, inA[key], inB[key])...)
		}
		return found
	}
	listA, isListA := a.([]any)
	listB, isListB := b.([]any)
	if isListA && isListB && len(listA) == len(listB) {
		var found []string
		for i := range listA {
			found = append(found, differences(fmt.Sprintf("%s[%d]", at, i), listA[i], listB[i])...)
		}
		return found
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []string{at}
}
