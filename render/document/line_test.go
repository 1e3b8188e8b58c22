package document_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/render/document"
)

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
