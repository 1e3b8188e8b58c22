package terraform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// Root is a root module of Terraform in its own folder, with its state.
type Root struct {
	// Dir is the folder of the module.
	Dir string
	// Program is the path of Terraform.
	Program string
	// Environment is added to the caller's environment.
	Environment []string
}

// NewRoot creates an empty root module below a folder. Terraform finds only the helm provider, in a mirror next to it.
func NewRoot(ctx context.Context, builder *binaries.Builder, dir string) (*Root, error) {
	built, err := builder.Build(ctx, binaries.Terraform, binaries.TerraformProviderHelm)
	if err != nil {
		return nil, err
	}
	const version = binaries.TerraformProviderHelmVersion
	mirror, settings := filepath.Join(dir, "mirror"), filepath.Join(dir, "terraformrc")
	provider := filepath.Join(mirror, "registry.terraform.io", "hashicorp", "helm", version, runtime.GOOS+"_"+runtime.GOARCH)
	rc := fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror { path = %q }\n}\n", mirror)
	r := &Root{
		Dir: filepath.Join(dir, "root"), Program: built[binaries.Terraform],
		Environment: []string{"TF_CLI_CONFIG_FILE=" + settings, "TF_INPUT=0", "TF_CLI_ARGS=-no-color"},
	}
	return r, errors.Join(
		os.MkdirAll(r.Dir, 0o755),
		os.MkdirAll(provider, 0o755),
		os.Symlink(built[binaries.TerraformProviderHelm], filepath.Join(provider, "terraform-provider-helm_v"+version+"_x5")),
		os.WriteFile(settings, []byte(rc), 0o600),
	)
}

// Take copies files, and folders of modules, into the root, keeping their names.
func (r *Root) Take(files ...string) error {
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			if err := os.CopyFS(filepath.Join(r.Dir, filepath.Base(file)), os.DirFS(file)); err != nil {
				return fmt.Errorf("write a module beside the root module: %w", err)
			}
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read what goes into the root module: %w", err)
		}
		if err := os.WriteFile(filepath.Join(r.Dir, filepath.Base(file)), text, 0o600); err != nil {
			return fmt.Errorf("write the root module: %w", err)
		}
	}
	return nil
}

// Run runs Terraform in the root and returns its output, and an error if it fails.
func (r *Root) Run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, r.Program, args...)
	cmd.Dir, cmd.Env = r.Dir, append(os.Environ(), r.Environment...)
	said, err := cmd.CombinedOutput()
	if err != nil {
		return string(said), fmt.Errorf("terraform %v: %w\n%s", args, err, said)
	}
	return string(said), nil
}
