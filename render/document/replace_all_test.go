package document_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render/document"
)

func TestReplaceAll(t *testing.T) {
	alias := func(keys []string, value string) (string, bool) {
		return "al2023@v2", len(keys) > 0 && keys[len(keys)-1] == "alias" && value == "al2023@v1"
	}
	for name, c := range map[string]struct {
		text, want string
		replaced   int
		fails      bool
	}{
		"comments, order and quotes stay": {
			text:     "# nodes\nspec:\n  b: 1 # two\n  a:\n    - alias: \"al2023@v1\"   # pinned\n    - {alias: 'al2023@v1', x: al2023@v1}\n",
			want:     "# nodes\nspec:\n  b: 1 # two\n  a:\n    - alias: \"al2023@v2\"   # pinned\n    - {alias: 'al2023@v2', x: al2023@v1}\n",
			replaced: 2,
		},
		"several documents, with carriage returns": {
			text: "---\r\nalias: al2023@v1\r\n---\r\nalias: al2023@v0\r\n---\r\n- alias: al2023@v1\r\n",
			want: "---\r\nalias: al2023@v2\r\n---\r\nalias: al2023@v0\r\n---\r\n- alias: al2023@v2\r\n", replaced: 2,
		},
		"JSON":                   {text: `{"é": "ü", "alias": "al2023@v1"}`, want: `{"é": "ü", "alias": "al2023@v2"}`, replaced: 1},
		"nothing to replace":     {text: "alias: al2023@v3\n", want: "alias: al2023@v3\n"},
		"folded text":            {text: "alias: >-\n  al2023@v1\n", fails: true},
		"an alias to an anchor":  {text: "x: {alias: al2023@v0}\ny: *z\n", fails: true},
		"text that is not valid": {text: "a: [", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, replaced, err := document.ReplaceAll([]byte(c.text), alias)
			if c.fails {
				if err == nil {
					t.Fatalf("got %q, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" || replaced != c.replaced {
				t.Errorf("replaced %d, want %d: %s", replaced, c.replaced, diff)
			}
		})
	}
}
