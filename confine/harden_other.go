//go:build !linux

package confine

import (
	"os"
	"runtime"
)

// executable is this program.
func executable() (string, error) { return os.Executable() }

// harden has nothing to use here: a laptop's CLI works on its user's own files.
func harden(Limits) (refused []string) {
	return []string{"resource limits and a filter of system calls: not on " + runtime.GOOS}
}
