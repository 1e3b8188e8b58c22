package confine_test

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/internal/landlock"
)

// less makes this test run where the kernel refuses Landlock.
var less = flag.Bool("less", false, "run where the kernel refuses Landlock")

// TestWhatTheKernelRefuses: without Landlock the work is done anyway, and the caller is informed once which part of the
// confinement is missing.
func TestWhatTheKernelRefuses(t *testing.T) {
	if !*less {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWhatTheKernelRefuses$", "-test.v", "-less")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	landlock.Refuse(t)
	var heard []string
	telling := runner.WithCallbacks(func(refused string) { heard = append(heard, refused) }, nil)
	for range 2 {
		if got, err := telling.Ask(t.Context(), "an echo", "echo", "hello"); err != nil || got != "hello" {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if len(heard) != 1 || !strings.Contains(heard[0], "Landlock: operation not permitted") {
		t.Errorf("heard of %q", heard)
	}
}
