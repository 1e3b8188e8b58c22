package render_test

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// requirement is a value as one of many objects has it.
func requirement(value any) map[string]any {
	return map[string]any{"key": "kubernetes.io/arch", "operator": "In", "values": []any{value}, "empty": map[string]any{}, "none": []any{}}
}

// same reports whether two maps are one.
func same(a, b any) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }

func TestValuesAreHeldOnce(t *testing.T) {
	long := ""
	for range 100 {
		long += "0123456789"
	}
	for name, c := range map[string]struct {
		a, b any
		want bool
	}{
		"equal ones":              {requirement("amd64"), requirement("amd64"), true},
		"others":                  {requirement("amd64"), requirement("arm64"), false},
		"a number and its text":   {requirement(int64(7)), requirement("7"), false},
		"a number and a fraction": {requirement(int64(7)), requirement(7.0), false},
		"a bool and its text":     {requirement(true), requirement("true"), false},
		"a null and its text":     {requirement(nil), requirement("null"), false},
		"a list and its text":     {requirement([]any{"a", "b"}), requirement(`["a","b",]`), false},
		"texts with quotes":       {requirement([]any{"a", "b"}), requirement([]any{`a","b`}), false},
		"long ones":               {requirement(long), requirement(long), false},
		"long ones, one shorter":  {requirement(long), requirement(long[1:]), false},
	} {
		t.Run(name, func(t *testing.T) {
			values := &render.Values{}
			a, b := values.Once(c.a), values.Once(c.b)
			if diff := cmp.Diff([]any{c.a, c.b}, []any{a, b}); diff != "" {
				t.Errorf("another value (-given +held):\n%s", diff)
			}
			if got := same(a, b); got != c.want {
				t.Errorf("held once: %t, want %t", got, c.want)
			}
		})
	}
}

// TestValuesAreLetGo: however many there are, and whoever asks at once, each is as
// it was given.
func TestValuesAreLetGo(t *testing.T) {
	for name, values := range map[string]*render.Values{"some": {}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			var group sync.WaitGroup
			for range 2 {
				group.Go(func() {
					for i := range 6000 {
						want := map[string]any{"name": fmt.Sprint(i % 5000), "arch": requirement("amd64")}
						if got := values.Once(want); !reflect.DeepEqual(got, any(want)) {
							t.Errorf("got %v, want %v", got, want)
						}
					}
				})
			}
			group.Wait()
		})
	}
}

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
