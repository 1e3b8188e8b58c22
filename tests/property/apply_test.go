package property

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// TestApply runs the property tests of reconcile/apply, which otherwise run
// against an API server in memory, against a real one: an object is planned to
// be written if and only if an apply would move its resourceVersion, and one
// apply makes everything what Git says.
func TestApply(t *testing.T) {
	builder, err := binaries.Here(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := builder.Build(t.Context(), binaries.Kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	group := process.NewGroup()
	t.Cleanup(group.Close)
	c, err := kube.Start(t.Context(), kube.Options{
		Binary: paths[binaries.Kubernetes], Dir: t.TempDir(), Programs: group, WithoutScheduler: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	test := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run=^TestProperties$", "-v", "./reconcile/apply",
		"-args", "-kubeconfig="+c.Kubeconfig, "-rapid.checks=60", "-rapid.nofailfile")
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
