package markdown

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	got := Parse([]byte("# A `B` page\n\nText with [a link](x.md#y)\nand | no table.\n\n## What's new?\n\n" +
		"| a |\n|---|\n| [in a cell](z.md) |\n\n<!-- run -->\n```sh\necho 1\necho 2\n```\n\n```yaml\na: 1\n```\n"))
	want := &Document{
		Anchors: map[string]bool{"a-b-page": true, "whats-new": true},
		Links:   []Link{{3, "x.md#y"}, {10, "z.md"}},
		Blocks: []Block{
			{14, "What's new?", "sh", "<!-- run -->", "echo 1\necho 2\n"},
			{19, "What's new?", "yaml", "", "a: 1\n"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
