// Package modcache finds the files of Go modules, for generators and tests that read those of other projects.
package modcache

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// Folder returns the folder of a module ("github.com/aws/karpenter-provider-aws@v1.15.0") in Go's module cache, which
// downloads it first if necessary. go runs outside of every module, so that no go.sum is changed.
func Folder(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir()
	cmd.Env = append(cmd.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w: %s", module, err, out) // with -json, stdout contains the reason
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return "", fmt.Errorf("download %s: %w", module, err)
	}
	return downloaded.Dir, nil
}
