package charts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// providerModule is where upstream keeps its charts, next to the controller's source.
const providerModule = "github.com/aws/karpenter-provider-aws"

// openModule returns the provider module's folder at a version without the leading v.
//
// The version that moduleDir's go.mod pins is checked against its go.sum and needs no network once it was downloaded. Any
// other one is checked against the checksum database, from a folder outside of every module, so that no go.sum is changed.
func openModule(ctx context.Context, moduleDir, version string) (fs.FS, error) {
	pinned, err := goCommand(ctx, moduleDir, "list", "-m", "-f", "{{.Version}}", providerModule)
	if err != nil {
		return nil, fmt.Errorf("find the pinned version of %s in %s: %w", providerModule, moduleDir, err)
	}

	from := os.TempDir()
	if strings.TrimSpace(string(pinned)) == "v"+version {
		from = moduleDir
	}

	out, err := goCommand(ctx, from, "mod", "download", "-json", providerModule+"@v"+version)
	if err != nil {
		return nil, fmt.Errorf("download %s v%s: %w", providerModule, version, err)
	}

	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("read what go mod download said of %s v%s: %w", providerModule, version, err)
	}

	return os.DirFS(module.Dir), nil
}

func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOWORK=off")

	out, err := cmd.Output()

	var exit *exec.ExitError
	if errors.As(err, &exit) {
		// With -json the reason is in the answer, otherwise on stderr.
		said := bytes.TrimSpace(append(exit.Stderr, out...))
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, said)
	}

	return out, err
}
