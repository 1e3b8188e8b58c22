package property

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// TestPredictions holds what a Plan says of nodes against what the real controller does: of each
// kind of change the nodes that were predicted are those that it finds Drifted.
func TestPredictions(t *testing.T) {
	if full, _ := os.LookupEnv("PLUMBLINE_FULL"); full != "1" {
		t.Skip("takes minutes: told with PLUMBLINE_FULL=1")
	}
	t.Parallel()
	s, err := sandbox.Up(t.Context(), sandbox.Options{FromSnapshot: true, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Down(); err != nil {
			t.Error(err)
		}
	})
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	test := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=30m", "-run=^TestPredictionsEqualKarpenter$", "-v", "./reconcile/preview",
		"-args", "-karpenter="+s.Kube.Kubeconfig)
	test.Dir = root
	output, err := test.CombinedOutput()
	t.Logf("%s", output)
	if err != nil {
		t.Fatalf("predictions differ from what Karpenter does: %v", err)
	}
	if !bytes.Contains(output, []byte("PASS: TestPredictionsEqualKarpenter")) {
		t.Fatal("no prediction was compared")
	}
}
