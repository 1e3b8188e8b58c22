package document_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render/document"
)

func TestUnset(t *testing.T) {
	note := []string{"metadata", "annotations", "e.f/g"}
	for name, tc := range map[string]struct {
		text string
		keys []string
		want string
	}{
		"not there":                {"a: 1\n", note, "a: 1\n"},
		"a line":                   {"a: 1 # one\nb: x # why\nc: 2\n", []string{"b"}, "a: 1 # one\nc: 2\n"},
		"the last line":            {"a: 1\nb: x", []string{"b"}, "a: 1\n"},
		"with carriages":           {"a: 1\r\nb: 2\r\nc: 3\r\n", []string{"b"}, "a: 1\r\nc: 3\r\n"},
		"with its map":             {"kind: A\nmetadata:\n  name: a\n  annotations:\n    e.f/g: y\nspec: {}\n", note, "kind: A\nmetadata:\n  name: a\nspec: {}\n"},
		"beside another":           {"metadata:\n  annotations:\n    e.f/g: y\n    h: z\n", note, "metadata:\n  annotations:\n    h: z\n"},
		"in braces":                {"metadata: {name: a, annotations: {e.f/g: \"x,y\"}}\n", note, "metadata: {name: a}\n"},
		"in braces, first":         {"metadata: {annotations: {e.f/g: y}, name: a}\n", note, "metadata: {name: a}\n"},
		"in braces beside another": {"metadata:\n  name: a\n  annotations: {e.f/g: y, h: z}\n", note, "metadata:\n  name: a\n  annotations: {h: z}\n"},
		"in braces of a line":      {"metadata:\n  annotations: {e.f/g: y}\n  name: a\n", note, "metadata:\n  name: a\n"},
		"of two documents' text":   {"# head\n---\na: 1\nb: 2\n", []string{"b"}, "# head\n---\na: 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := document.Unset([]byte(tc.text), tc.keys...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for name, text := range map[string]string{
		"two documents":  "a: 1\n---\nb: 1\n",
		"many lines":     "metadata:\n  annotations:\n    h: x\n    e.f/g: |\n      y\n",
		"an anchor":      "metadata:\n  annotations:\n    h: x\n    e.f/g: &y z\n",
		"beside its key": "metadata:\n  annotations: {h: x,\n    e.f/g:\n     'y\n     z'}\n",
	} {
		if got, err := document.Unset([]byte(text), note...); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}
