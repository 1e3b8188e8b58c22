package source_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// childOf names the test that this process is a child of. Tests that are measured or limited run in a child, so that
// this does not affect other tests.
var childOf = flag.String("child", "", "run as the child of this test; the arguments are the test's own")

// child runs the test again in its own process, in which isChild is true, and returns its output.
func child(t *testing.T, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, append([]string{"-test.run=^" + t.Name() + "$", "-test.v", "-child=" + t.Name()}, args...)...)
	cmd.Dir = t.TempDir()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("the child: %v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "--- PASS: "+t.Name()) {
		t.Fatalf("the child ran nothing:\n%s", out.String())
	}
	return out.String()
}

func isChild(t *testing.T) bool {
	t.Helper()
	return *childOf == t.Name()
}
