package render_test

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// requirement is a value as one of many objects has it.
func requirement(value any) map[string]any {
	return map[string]any{"key": "kubernetes.io/arch", "operator": "In", "values": []any{value}, "empty": map[string]any{}, "none": []any{}}
}

// same says whether two maps are one.
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
