package terraform_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/terraform"
)

// root is a root module with files of the examples.
type root struct{ *terraform.Root }

func newRoot(t *testing.T, files ...string) *root {
	t.Helper()
	if full, _ := os.LookupEnv("PLUMBLINE_FULL"); full != "1" {
		t.Skip("builds Terraform: told with PLUMBLINE_FULL=1")
	}
	builder, err := binaries.Here(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	made, err := terraform.NewRoot(t.Context(), builder, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &root{made}
	r.take(t, files...)
	return r
}

func (r *root) take(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		if err := r.Take(filepath.Join(examples, file)); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs Terraform in the root, and fails the test if that fails.
func (r *root) run(t *testing.T, args ...string) string {
	t.Helper()
	said, err := r.Run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
