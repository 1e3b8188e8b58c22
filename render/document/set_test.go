package document_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render/document"
)

func TestSet(t *testing.T) {
	for name, tc := range map[string]struct {
		text, value string
		keys        []string
		want        string
	}{
		"a value":             {"a: 1\nb: x # why\nc: 2\n", "y", []string{"b"}, "a: 1\nb: y # why\nc: 2\n"},
		"in quotes":           {"b:   \"x\"   # why\n", "y", []string{"b"}, "b:   \"y\"   # why\n"},
		"in single quotes":    {"b: 'x'\n", "y", []string{"b"}, "b: 'y'\n"},
		"that needs quotes":   {"a: 1\n", "1.14", []string{"b"}, "a: 1\nb: \"1.14\"\n"},
		"a digest":            {"b: x\n", "sha256:ab", []string{"b"}, "b: sha256:ab\n"},
		"after other letters": {"é: {ü: ö, b: x}\n", "y", []string{"é", "b"}, "é: {ü: ö, b: y}\n"},
		"a new one":           {"# head\na: 1 # one\n\n# two\nb:\n  c: 3\n", "y", []string{"d"}, "# head\na: 1 # one\nd: y\n\n# two\nb:\n  c: 3\n"},
		"at an end":           {"a: 1", "y", []string{"d"}, "a: 1\nd: y\n"},
		"with carriages":      {"a: 1\r\nb: 2\r\n", "y", []string{"d"}, "a: 1\r\nb: 2\r\nd: y\r\n"},
		"in braces":           {"{a: 1}\n", "y", []string{"d"}, "{d: y, a: 1}\n"},
		"below":               {"a: 1\nb:\n    c: 3\n", "y", []string{"b", "d"}, "a: 1\nb:\n    c: 3\n    d: y\n"},
		"below in braces":     {"a: 1\nb: {c: 3}\n", "y", []string{"b", "d"}, "a: 1\nb: {d: y, c: 3}\n"},
		"below nothing":       {"a: 1\nb: {}\n", "y", []string{"b", "d"}, "a: 1\nb: {d: y}\n"},
		"two at once":         {"a: 1\n", "y", []string{"b", "d"}, "a: 1\nb:\n  d: y\n"},
		"two in braces":       {"{a: 1}\n", "y", []string{"b", "d"}, "{b: {d: y}, a: 1}\n"},
		"three in braces":     {"{a: 1}\n", "y", []string{"b", "d", "e.f/g"}, "{b: {d: {e.f/g: y}}, a: 1}\n"},
		"an annotation":       {"kind: A\nmetadata:\n  name: a\nspec: {}\n", "y", []string{"metadata", "annotations", "e.f/g"}, "kind: A\nmetadata:\n  name: a\n  annotations:\n    e.f/g: y\nspec: {}\n"},
		"an annotation again": {"kind: A\nmetadata: {name: a, annotations: {e.f/g: \"x\"}}\n", "y,z", []string{"metadata", "annotations", "e.f/g"}, "kind: A\nmetadata: {name: a, annotations: {e.f/g: \"y,z\"}}\n"},
		"the same":            {"a: x\n", "x", []string{"a"}, "a: x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := document.Set([]byte(tc.text), tc.value, tc.keys...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		keys []string
		says string
	}{
		"two documents":  {"a: 1\n---\na: 1\n", []string{"a"}, "2 documents"},
		"a list":         {"- a\n", []string{"a"}, "not a map"},
		"a map":          {"a: {b: 1}\n", []string{"a"}, "a is not written as plain text"},
		"below a text":   {"a: b\n", []string{"a", "b"}, "the parent of b is not a map"},
		"many lines":     {"a: |\n  b\n", []string{"a"}, "a is not written as plain text"},
		"an anchor":      {"a: &x b\nc: *x\n", []string{"a"}, "a is not written as plain text"},
		"a folded plain": {"a: b\n  c\n", []string{"a"}, "a is not written as plain text"},
		"an escape":      {`a: "b\"c"` + "\n", []string{"a"}, "a is not written as plain text"},
		"no place":       {"a:\n  b: 1\n", []string{"c"}, "there is no place for c"},
		"a number to be": {"a: 1\nb: x # 1\n", []string{"b"}, "b cannot be set in a text of this form"},
		"malformed":      {"a: [\n", []string{"a"}, "not YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			value := "y"
			if name == "a number to be" {
				value = "1.14"
			}
			got, err := document.Set([]byte(tc.text), value, tc.keys...)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q, %v; want an error that says %q", got, err, tc.says)
			}
		})
	}
}

// FuzzSet: for any input, no other field changes, and it does not panic.
func FuzzSet(f *testing.F) {
	f.Add("a: 1\nb: x # why\n", "y")
	f.Add("{b: 'x'}", "./charts")
	f.Add("b: \"é\"\r\nc: [1]\r\n", "sha256:00")
	f.Fuzz(func(t *testing.T, text, value string) {
		edited, err := document.Set([]byte(text), value, "b")
		if err != nil {
			return
		}
		again, err := document.Parse(edited)
		if err != nil || len(again) != 1 || again[0].Value.(map[string]any)["b"] != value {
			t.Errorf("%q became %q: %v", text, edited, err)
		}
	})
}

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
