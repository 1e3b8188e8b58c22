package document_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render/document"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []any
	}{
		"nothing":              {"", nil},
		"comments":             {"# only\n---\n# comments\n", nil},
		"two documents":        {"a: 1\n---\nb: 2\n", []any{map[string]any{"a": int64(1)}, map[string]any{"b": int64(2)}}},
		"an empty one between": {"a: 1\n---\n---\n# none\n---\nb: 2\n", []any{map[string]any{"a": int64(1)}, map[string]any{"b": int64(2)}}},
		"scalars": {
			"s: text\ni: -7\nf: 1.5\nb: true\nq: \"1\"\nbig: 9007199254740993\nhex: 0x10\n",
			[]any{map[string]any{"s": "text", "i": int64(-7), "f": 1.5, "b": true, "q": "1", "big": int64(9007199254740993), "hex": int64(16)}},
		},
		"whole floats":       {"a: 1.0\nb: 1e3\n", []any{map[string]any{"a": int64(1), "b": int64(1000)}}},
		"words, not bools":   {"a: yes\nb: on\nc: n\n", []any{map[string]any{"a": "yes", "b": "on", "c": "n"}}},
		"dates are words":    {"a: 2024-05-01\n", []any{map[string]any{"a": "2024-05-01"}}},
		"nulls are left out": {"a: null\nb: ~\nc:\nd: {e: null}\n", []any{map[string]any{"d": map[string]any{}}}},
		"nulls in lists":     {"a: [null, 1]\n", []any{map[string]any{"a": []any{nil, int64(1)}}}},
		"keys that are no words": {
			"1: a\ntrue: b\n", []any{map[string]any{"1": "a", "true": "b"}},
		},
		"anchors":       {"a: &x {k: v}\nb: *x\n", []any{map[string]any{"a": map[string]any{"k": "v"}, "b": map[string]any{"k": "v"}}}},
		"merge":         {"a: &x {k: v, o: 1}\nb: {<<: *x, o: 2}\n", []any{map[string]any{"a": map[string]any{"k": "v", "o": int64(1)}, "b": map[string]any{"k": "v", "o": int64(2)}}}},
		"merge of many": {"a: &x {k: 1}\nb: &y {k: 2, l: 3}\nc: {<<: [*x, *y]}\n", []any{map[string]any{"a": map[string]any{"k": int64(1)}, "b": map[string]any{"k": int64(2), "l": int64(3)}, "c": map[string]any{"k": int64(1), "l": int64(3)}}}},
		"a block of text": {
			"a: |\n  one \\ two  \n\n    three\n", []any{map[string]any{"a": "one \\ two  \n\n  three\n"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := document.Parse([]byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []any
			for _, doc := range documents {
				got = append(got, doc.Value)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// bomb returns ten lines that expand to 10^9 words.
func bomb() string {
	var text strings.Builder
	text.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		one := fmt.Sprintf("*a%d", i-1)
		fmt.Fprintf(&text, "a%d: &a%d [%s]\n", i, i, strings.Join(strings.Split(strings.Repeat(one+" ", 10), " ")[:10], ", "))
	}
	return text.String()
}

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		line int
		want string
	}{
		"malformed":          {"a: 1\nb: [\n", 2, "not YAML"},
		"an open brace":      {"a: b\nc: d\ne: {f: g\nh: i\n", 3, "did not find expected ',' or '}'"},
		"at the first line":  {"a: {b: c\n", 1, "did not find expected ',' or '}'"},
		"too far in":         {"a: b\nspec:\n  c: d\n  e:\n    f: g\n   h: i\n  j: k\n", 6, "did not find expected key"},
		"a wrong indent":     {"a: b\nc:\n  - x\n  y: z\n", 4, "did not find expected '-' indicator"},
		"two colons":         {"a: b\nc: d: e\n", 2, "mapping values are not allowed"},
		"a tab":              {"a:\n\tb: 1\n", 2, "not YAML"},
		"a key twice":        {"a: 1\nb: 2\na: 3\n", 3, `key "a" is written twice, first in line 1`},
		"a key twice deep":   {"a:\n  b: 1\n  c: 2\n  b: 3\n", 4, `key "b" is written twice`},
		"a list as a key":    {"a: 1\n? [b]\n: 2\n", 2, "a key is not a plain word"},
		"an unknown anchor":  {"a: *x\n", 0, "not YAML"},
		"an alias bomb":      {bomb(), 0, "aliases make more"},
		"an alias of itself": {"a: &x\n  b: *x\n", 0, ""},
		"deep":               {strings.Repeat("[", 500) + strings.Repeat("]", 500), 1, "nest deeper"},
		"a tag":              {"a: !!binary aGVsbG8=\n", 1, "the tag !!binary is not understood"},
		"a tag of its own":   {"a: 1\nb: !vault x\n", 2, "not understood"},
		"not a number":       {"a: .nan\n", 1, "not a number that JSON has"},
		"infinity":           {"a: .inf\n", 1, "not a number that JSON has"},
		"too large":          {"a: 18446744073709551615\n", 1, "too large"},
		"merge of a word":    {"a: {<<: x}\n", 1, "<< takes a map"},
		"many documents":     {strings.Repeat("a: 1\n---\n", document.MaxDocuments+1), 2*document.MaxDocuments + 1, "more than 1000 documents"},
		"bytes":              {"a: \xff\xfe\n", 0, "not YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := document.Parse([]byte(tc.text))
			var found *document.Error
			if !errors.As(err, &found) {
				t.Fatalf("error %v, want *document.Error", err)
			}
			if tc.line != 0 && found.Line != tc.line {
				t.Errorf("line %d, want %d: %v", found.Line, tc.line, err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q, want %q in it", err, tc.want)
			}
		})
	}
}

func TestParseJSON(t *testing.T) {
	documents, err := document.ParseJSON([]byte("{\n\t\"a\": [1, \"x\\ty\"],\n\t\"b\": {\"c\": true}\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"a": []any{int64(1), "x\ty"}, "b": map[string]any{"c": true}}
	if diff := cmp.Diff(want, documents[0].Value); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if line := documents[0].LineOf("b.c"); line != 3 {
		t.Errorf("b.c is in line %d, want 3", line)
	}
	if documents, err := document.ParseJSON([]byte(" \n")); err != nil || len(documents) != 0 {
		t.Errorf("an empty file: %v, %v", documents, err)
	}
	var found *document.Error
	if _, err := document.ParseJSON([]byte("{\n\"a\": 1,\n}")); !errors.As(err, &found) || found.Line != 3 {
		t.Errorf("error %v, want one in line 3", err)
	}
}

const positioned = `# a comment
apiVersion: v1
metadata:
  labels:
    kubernetes.io/arch: amd64
    kubernetes.io/arch.more: x
spec:
  items:
    - key: a
      values:
        - one
        - two
    - key: b
  shared: &shared
    deep: 1
  again: *shared
`

func TestLineOf(t *testing.T) {
	documents, err := document.Parse([]byte(positioned))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"":                                    2,
		"apiVersion":                          2,
		"metadata":                            3,
		"metadata.labels[kubernetes.io/arch]": 5,
		"metadata.labels.kubernetes.io/arch":  5,
		"metadata.labels.kubernetes.io/arch.more": 6,
		"metadata.name":           3,
		"spec.items[0].key":       9,
		"spec.items[0].values[1]": 12,
		"spec.items[1]":           13,
		"spec.items.1.key":        13,
		"spec.items[7]":           8,
		"spec.items[x]":           8,
		"spec.missing.deep":       7,
		"spec.again.deep":         15,
		"nothing":                 2,
	} {
		if got := documents[0].LineOf(path); got != want {
			t.Errorf("%q is in line %d, want %d", path, got, want)
		}
	}
}

func TestItems(t *testing.T) {
	documents, err := document.Parse([]byte("kind: List\nitems:\n  - a: 1\n  -\n    b: 2\n    c: 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	items, ok := documents[0].Items()
	if !ok || len(items) != 2 {
		t.Fatalf("items %v, %v", items, ok)
	}
	if items[1].Line != 5 || items[1].LineOf("c") != 6 {
		t.Errorf("lines %d and %d, want 5 and 6", items[1].Line, items[1].LineOf("c"))
	}
	for name, text := range map[string]string{"a list": "- 1\n", "no items": "a: 1\n", "items no list": "items: 1\n"} {
		documents, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := documents[0].Items(); ok {
			t.Errorf("%s is taken for a list of objects", name)
		}
	}
}
