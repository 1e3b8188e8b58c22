package document_test

import (
	"errors"
	"testing"

	"github.com/plumbline-dev/plumbline/render/document"
)

// TestBreaks: YAML must have the same lines that a person sees.
func TestBreaks(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		line int
	}{
		"a line separator":      {"a: 1\n# b \u2028c: 2\n", 2},
		"a paragraph separator": {"# b \u2029c: 2\n", 1},
		"a next line":           {"\n\n# b \u0085c: 2\n", 3},
		"a carriage return":     {"a: 1\r\n# b \rc: 2\r\n", 2},
		"in UTF-16":             {"\xff\xfea\x00:\x00 \x001\x00\n\x00#\x00\x28\x20b\x00", 2},
		"none":                  {"a: 1 # é …\r\nb: \"\\u2028 \\L\\N\\P\\r\"\r\n", 0},
		"none in UTF-16":        {"\xfe\xff\x00a\x00:\x00 \xc2\x85", 0},
		"at the end":            {"a: 1\r", 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := document.Parse([]byte(tc.text))
			var refused *document.Error
			if errors.As(err, &refused) != (tc.line > 0) || refused != nil && refused.Line != tc.line {
				t.Errorf("%#v, want line %d", err, tc.line)
			}
		})
	}
}
