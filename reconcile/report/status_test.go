package report_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

func TestTruncate(t *testing.T) {
	words := strings.Repeat("wort ", 40)
	cases := map[string]struct{ in, want string }{
		"empty":         {"", ""},
		"short":         {"applied, Ready", "applied, Ready"},
		"mentions":      {"refused: dis ``` @sandbox, (@a) @@b", "refused: dis ''' sandbox, (a) b"},
		"no mentions":   {"al2023@latest main@sha1:4f2e 3 @ 4", "al2023@latest main@sha1:4f2e 3 @ 4"},
		"lines":         {"one\n  two\t three ", "one two three"},
		"exactly 140":   {strings.Repeat("é", 140), strings.Repeat("é", 140)},
		"at a word":     {words, strings.TrimSpace(strings.Repeat("wort ", 28)) + "…"},
		"one long word": {strings.Repeat("é", 200), strings.Repeat("é", 139) + "…"},
		"cut before":    {strings.Repeat("a", 100) + "… " + strings.Repeat("b", 60), strings.Repeat("a", 100) + "…"},
		"141":           {strings.Repeat("a", 70) + " " + strings.Repeat("b", 70), strings.Repeat("a", 70) + "…"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := report.Truncate(c.in)
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if n := utf8.RuneCountInString(got); n > report.MaxDescription {
				t.Errorf("%d characters", n)
			}
		})
	}
}
