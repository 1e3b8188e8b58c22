package property

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox/charts"
)

// TestCharts installs Karpenter's own charts in a real API server, and moves
// what they have installed.
func TestCharts(t *testing.T) {
	t.Parallel()
	c := startKube(t)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := charts.Serve(t.Context(), charts.Options{Source: filepath.Join(root, "tests", "sandbox", "bin")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = registry.Close() })
	test := exec.CommandContext(t.Context(), "go", "test", "-trimpath", "-count=1", "-run=^TestRealCharts$", "-v", "./provision/charts/release",
		"-args", "-kubeconfig="+c.Kubeconfig, "-repository="+registry.Repository)
	test.Dir = root
	output, err := test.CombinedOutput()
	t.Logf("%s", output)
	if err != nil {
		t.Fatalf("the charts do not stand: %v", err)
	}
	if !bytes.Contains(output, []byte("PASS: TestRealCharts")) {
		t.Fatal("the charts were not installed in the API server")
	}
}
