package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheReferenceIsFresh: the pages match the types.
func TestTheReferenceIsFresh(t *testing.T) {
	for _, p := range pages {
		p.folder = "../" + p.folder
		want, err := p.write(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile("../../docs/reference/" + p.file)
		if err != nil {
			t.Errorf("make generate: %v", err)
		} else if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is stale: make generate (-want +got):\n%s", p.file, diff)
		}
	}
}

// TestTypesInWords: a field's row has what a reader needs.
func TestTypesInWords(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(folder+"/types.go", []byte(`package x

// Root is one <thing>.
type Root struct {
	// Size says how
	// large it is.
	// +kubebuilder:default=small
	// +optional
	Size Size `+"`json:\"size,omitempty\"`"+`
	// Parts are its parts.
	Parts []*Part `+"`json:\"parts\"`"+`
	hidden int
}

// Size is how large.
// +kubebuilder:validation:Enum=small;large
type Size string

// Part is one part.
type Part struct {
	Names map[string]string `+"`json:\"names,omitempty\"`"+`
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := write(page{folder: folder, root: "Root", title: "root", text: "Text."})
	if err != nil {
		t.Fatal(err)
	}
	want := "<!-- Generated from the doc comments of " + strings.TrimLeft(folder, "./") + ": make generate. -->\n" + `
# root

Text.

## Root

Root is one &lt;thing>.

| field | type | meaning |
|---|---|---|
| ` + "`size` | string | Size says how large it is. One of `small`, `large`. Default: `small`." + ` |
| ` + "`parts` | list of [Part](#part)" + ` | **Required.** Parts are its parts. |

## Part

Part is one part.

| field | type | meaning |
|---|---|---|
| ` + "`names` | map to string" + ` |  |
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := write(page{folder: folder, root: "None"}); err == nil {
		t.Error("a page of a type that is not there was written")
	}
}
