package render_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// weighed is a NodePool whose spec is too long to be held for all.
func weighed(name string, weight any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"weight":   weight,
			"template": map[string]any{"note": strings.Repeat("x", 300), "list": []any{map[string]any{"note": strings.Repeat("y", 300)}}},
		},
	}}
}

// TestShare: what two objects of one name have in common is one.
func TestShare(t *testing.T) {
	template := []string{"spec", "template"}
	for name, c := range map[string]struct {
		first, second *unstructured.Unstructured
		change        func(*unstructured.Unstructured)
		// one are the parts that are one then, and two those that are not.
		one, two [][]string
	}{
		"equal ones":     {first: weighed("a", int64(1)), second: weighed("a", int64(1)), one: [][]string{{}, {"spec"}}},
		"another field":  {first: weighed("a", int64(1)), second: weighed("a", int64(2)), one: [][]string{template}, two: [][]string{{}, {"spec"}}},
		"a field more":   {first: weighed("a", int64(1)), second: with(weighed("a", int64(1)), "b", "spec", "template", "more"), one: nil, two: [][]string{{"spec"}, template}},
		"a field less":   {first: with(weighed("a", int64(1)), "b", "status", "more"), second: weighed("a", int64(1)), one: [][]string{{"spec"}}, two: [][]string{{}}},
		"a null":         {first: weighed("a", nil), second: weighed("a", nil), one: [][]string{template}, two: [][]string{{"spec"}}},
		"a null or none": {first: weighed("a", int64(1)), second: with(weighed("a", int64(1)), nil, "spec", "template", "more"), two: [][]string{template}},
		"another name":   {first: weighed("a", int64(1)), second: weighed("b", int64(1)), two: [][]string{{}, {"spec"}, template}},
	} {
		t.Run(name, func(t *testing.T) {
			values, want := &render.Values{}, []*unstructured.Unstructured{c.first.DeepCopy(), c.second.DeepCopy()}
			values.Share(c.first)
			values.Share(c.second)
			if diff := cmp.Diff(want, []*unstructured.Unstructured{c.first, c.second}); diff != "" {
				t.Errorf("other objects (-given +shared):\n%s", diff)
			}
			for _, path := range c.one {
				if !same(at(t, c.first, path), at(t, c.second, path)) {
					t.Errorf("%v is held twice", path)
				}
			}
			for _, path := range c.two {
				if same(at(t, c.first, path), at(t, c.second, path)) {
					t.Errorf("%v is held once", path)
				}
			}
		})
	}
}

func with(object *unstructured.Unstructured, value any, path ...string) *unstructured.Unstructured {
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		panic(err)
	}
	return object
}

func at(t *testing.T, object *unstructured.Unstructured, path []string) any {
	t.Helper()
	if len(path) == 0 {
		return object.Object
	}
	value, _, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestShareKeepsNothing: objects come and go, and the daemon runs for months.
func TestShareKeepsNothing(t *testing.T) {
	const many = 20_000
	values := &render.Values{}
	before := heap()
	for i := range many {
		values.Share(weighed(fmt.Sprint("pool-", i), int64(i)))
	}
	grown := int64(heap()) - int64(before)
	runtime.KeepAlive(values)
	if grown > many*150 {
		t.Errorf("%d bytes are kept of each of %d objects that are gone", grown/many, many)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
