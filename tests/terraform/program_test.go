package terraform_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// root is a root module of Terraform in a folder of its own, with state there.
type root struct {
	dir     string
	program string
	env     []string
}

// newRoot copies files of the examples into a root module. Terraform finds the
// helm provider, and nothing else, in a mirror beside it.
func newRoot(t *testing.T, files ...string) *root {
	t.Helper()
	if full, _ := os.LookupEnv("PLUMBLINE_FULL"); full != "1" {
		t.Skip("builds Terraform: told with PLUMBLINE_FULL=1")
	}
	builder, err := binaries.Here(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	built, err := builder.Build(t.Context(), binaries.Terraform, binaries.TerraformProviderHelm)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const version = binaries.TerraformProviderHelmVersion
	mirror := filepath.Join(dir, "mirror")
	provider := filepath.Join(mirror, "registry.terraform.io", "hashicorp", "helm", version, runtime.GOOS+"_"+runtime.GOARCH)
	if err := os.MkdirAll(provider, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(built[binaries.TerraformProviderHelm], filepath.Join(provider, "terraform-provider-helm_v"+version+"_x5")); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(dir, "terraformrc")
	write(t, settings, fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror { path = %q }\n}\n", mirror))
	r := &root{dir: filepath.Join(dir, "root"), program: built[binaries.Terraform]}
	r.env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "TF_INPUT=0", "HOME="+dir, "KUBECONFIG=")
	r.take(t, files...)
	return r
}

// take copies files of the examples into the root.
func (r *root) take(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(examples, file))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(r.dir, filepath.Base(file)), string(text))
	}
}

// run runs Terraform in the root, and fails the test where that ends badly.
func (r *root) run(t *testing.T, args ...string) string {
	t.Helper()
	said, code := r.try(t, args...)
	if code != 0 {
		t.Fatalf("terraform %v: %d\n%s", args, code, said)
	}
	return said
}

func (r *root) try(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), r.program, append([]string{"-chdir=" + r.dir}, args...)...)
	cmd.Env = r.env
	said, err := cmd.CombinedOutput()
	if ended := new(exec.ExitError); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return string(said), cmd.ProcessState.ExitCode()
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
