package binaries

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrNoSource means that the modules to build from were not found.
var ErrNoSource = errors.New("tests/sandbox/bin is not in this folder nor in one above it: run inside the repository's checkout")

// FindSource returns the folder tests/sandbox/bin of the checkout that contains dir.
func FindSource(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the sandbox's modules from %s: %w", dir, err)
	}
	for at := abs; ; at = filepath.Dir(at) {
		for _, tests := range []string{at, filepath.Join(at, "tests")} {
			bin := filepath.Join(tests, "sandbox", "bin")
			if _, err := os.Stat(filepath.Join(bin, string(Kubernetes), "go.mod")); err == nil {
				return bin, nil
			}
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("find the sandbox's modules from %s: %w", abs, ErrNoSource)
		}
	}
}

// DefaultCache returns the default folder for built programs and prepared snapshots.
func DefaultCache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for built programs (set XDG_CACHE_HOME or HOME): %w", err)
	}
	return filepath.Join(dir, "plumbline-sandbox"), nil
}
