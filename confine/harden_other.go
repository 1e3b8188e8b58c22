//go:build !linux

package confine

import (
	"os"
	"runtime"
)

// executable returns the path of this program.
func executable() (string, error) { return os.Executable() }

// harden does nothing here: on a laptop the CLI works on its user's own files.
func harden(Limits) (refused []string) {
	return []string{"resource limits and a filter of system calls: not on " + runtime.GOOS}
}
