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
	"path/filepath"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// providerModule contains upstream's charts, next to the controller's source.
const providerModule = "github.com/aws/karpenter-provider-aws"

// openModule returns the provider module's folder at a version without the leading v. It is verified with the go.sum of
// that version's own module below source, and needs no network once downloaded.
func openModule(ctx context.Context, source, version string) (fs.FS, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", providerModule+"@v"+version)
	cmd.Dir = filepath.Join(source, string(binaries.KarpenterOf(version)))
	cmd.Env = append(cmd.Environ(), "GOWORK=off")

	out, err := cmd.Output()

	var exit *exec.ExitError
	if errors.As(err, &exit) {
		// With -json, stdout contains the reason.
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(append(exit.Stderr, out...)))
	}

	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w", strings.Join(cmd.Args, " "), cmd.Dir, err)
	}

	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("read what go mod download said of %s v%s: %w", providerModule, version, err)
	}

	return os.DirFS(module.Dir), nil
}
