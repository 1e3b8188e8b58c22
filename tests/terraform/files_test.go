package terraform_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// examples is the tested folder.
const examples = "../../examples/terraform"

// bodyOf parses a file of the examples.
func bodyOf(t *testing.T, path ...string) *hclsyntax.Body {
	t.Helper()
	file := filepath.Join(append([]string{examples}, path...)...)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, diags := hclsyntax.ParseConfig(text, file, hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	body, ok := parsed.Body.(*hclsyntax.Body)
	if !ok {
		t.Fatalf("%s: the body is a %T", file, parsed.Body)
	}
	return body
}

func TestFormatted(t *testing.T) {
	seen := 0
	err := fs.WalkDir(os.DirFS(examples), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".tf" {
			return err
		}
		seen++
		bodyOf(t, path)
		text, err := os.ReadFile(filepath.Join(examples, path))
		if err == nil && !bytes.Equal(hclwrite.Format(text), text) {
			t.Errorf("%s: not as terraform fmt writes it", path)
		}
		return err
	})
	if err != nil || seen == 0 {
		t.Fatalf("%d files: %v", seen, err)
	}
}
