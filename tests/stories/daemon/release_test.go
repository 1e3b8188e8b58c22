package daemon_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// TestStepPointsAreForTestsAlone checks that the released program does not contain the code that kills the daemon in
// tests.
func TestStepPointsAreForTestsAlone(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for path, want := range map[string]bool{daemon.Binary(root): false, daemon.StepsBinary(root): true} {
		program, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v: make build build-steps", err)
		}
		for _, name := range []string{"step-kill", "step-trace", "steppoint.Points.reach"} {
			if got := bytes.Contains(program, []byte(name)); got != want {
				t.Errorf("%s has %q: got %v, want %v", path, name, got, want)
			}
		}
	}
}
