package property

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestApply runs the property tests of reconcile/apply, which otherwise run
// against an API server in memory, against a real one: an object is planned to
// be written if and only if an apply would move its resourceVersion, and one
// apply makes everything what Git says.
func TestApply(t *testing.T) {
	t.Parallel()
	c := startKube(t)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	test := exec.CommandContext(t.Context(), "go", "test", "-trimpath", "-count=1", "-run=^TestProperties$", "-v", "./reconcile/apply",
		"-args", "-apiserver="+c.Kubeconfig, "-rapid.checks=60", "-rapid.nofailfile")
	test.Dir = root
	output, err := test.CombinedOutput()
	t.Logf("%s", output)
	if err != nil {
		t.Fatalf("the properties do not hold: %v", err)
	}
	if !bytes.Contains(output, []byte("PASS: TestProperties/API_server")) {
		t.Fatal("the properties were not held against the API server")
	}
}
