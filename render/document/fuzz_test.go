package document_test

import (
	"errors"
	"testing"

	"github.com/plumbline-dev/plumbline/render/document"
)

// FuzzParse: no text panics or exceeds its limits, every error has a type, and every line is within the text.
func FuzzParse(f *testing.F) {
	for _, text := range []string{positioned, bomb(), "a: &x\n  b: *x\n", "- ? [a]\n  : b", "{\"a\":\t1}", "a: |2\n   x\n...\n---\n%YAML 1.2\n", "a: !!int 99999999999999999999\nb: !!float 1e1000000000\nc: 0b2\nd: 0o7_7\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, parse := range []func([]byte) ([]document.Document, error){document.Parse, document.ParseJSON} {
			documents, err := parse(data)
			var found *document.Error
			if err != nil && !errors.As(err, &found) {
				t.Fatalf("an error of type %T: %v", err, err)
			}
			for _, doc := range documents {
				if doc.Value == nil || doc.Line < 1 || doc.LineOf("a.b[0].c") < 1 {
					t.Fatalf("document %v in line %d", doc.Value, doc.Line)
				}
				doc.Items()
			}
		}
	})
}
