package shortlist_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
)

// TestShortlist: at most so many words are named, and only the others are counted.
func TestShortlist(t *testing.T) {
	for name, c := range map[string]struct {
		words       []string
		join, items string
	}{
		"none":         {},
		"one":          {[]string{"a"}, "a", "a"},
		"all":          {[]string{"a", "b"}, "a, b", "a, b"},
		"one too many": {[]string{"a", "b", "c"}, "a, b and 1 more", "a, b, and 1 more"},
		"many":         {[]string{"a", "b", "c", "d", "e"}, "a, b and 3 more", "a, b, and 3 more"},
	} {
		before := append([]string(nil), c.words...)
		join, items := shortlist.Join(c.words, 2, ", "), shortlist.Items(c.words, 2, ", ")
		if join != c.join || items != c.items {
			t.Errorf("%s: %q and %q", name, join, items)
		}
		for i := range before {
			if c.words[i] != before[i] {
				t.Errorf("%s: changes the words to %q", name, c.words)
			}
		}
	}
}
