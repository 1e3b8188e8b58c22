package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhatDefaultsAddIsAddedAgain: an object with what it has more is the object with its defaults, and what
// lacks something is none of that.
func TestWhatDefaultsAddIsAddedAgain(t *testing.T) {
	type object = map[string]any
	for name, c := range map[string]struct {
		was, of, added object
		lacks          bool
	}{
		"nothing":            {was: object{"a": int64(1)}, of: object{"a": int64(1)}},
		"a field":            {was: object{"a": int64(1)}, of: object{"a": int64(1), "b": "x"}, added: object{"b": "x"}},
		"a field below":      {was: object{"s": object{"a": int64(1)}}, of: object{"s": object{"a": int64(1), "b": true}}, added: object{"s": object{"b": true}}},
		"into an empty map":  {was: object{"s": object{}}, of: object{"s": object{"b": true}}, added: object{"s": object{"b": true}}},
		"an empty map":       {was: object{}, of: object{"s": object{}}, added: object{"s": object{}}},
		"in a list":          {was: object{"l": []any{object{"a": "x"}}}, of: object{"l": []any{object{"a": "x", "b": "y"}}}, added: object{"l": []any{object{"a": "x", "b": "y"}}}},
		"a map for a text":   {was: object{"s": "x"}, of: object{"s": object{"b": true}}, added: object{"s": object{"b": true}}},
		"a text for a map":   {was: object{"s": object{"b": true}}, of: object{"s": "x"}, added: object{"s": "x"}},
		"a field less":       {was: object{"a": int64(1)}, of: object{}, lacks: true},
		"a field less below": {was: object{"s": object{"a": nil}}, of: object{"s": object{"b": true}}, lacks: true},
	} {
		t.Run(name, func(t *testing.T) {
			added, only := more(c.was, c.of)
			if only == c.lacks || !cmp.Equal(c.added, added) {
				t.Fatalf("it adds %v, only %v", added, only)
			}
			if only {
				if diff := cmp.Diff(c.of, (&Values{}).with(c.was, added)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}
