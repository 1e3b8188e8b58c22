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
// kind of change, and of random ones, the nodes that were predicted are those that it finds Drifted.
// PLUMBLINE_PREDICTIONS is how many are drawn, by PLUMBLINE_SEED.
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
	test := exec.CommandContext(t.Context(), "go", "test", "-trimpath", "-count=1", "-timeout=90m", "-run=^Test(Random)?PredictionsEqualKarpenter$", "-v", "./reconcile/review",
		"-args", "-karpenter="+s.Kube.Kubeconfig, "-draws="+setting("PLUMBLINE_PREDICTIONS", "200"), "-seed="+setting("PLUMBLINE_SEED", "0"))
	test.Dir, test.Env = root, os.Environ()
	for name, value := range s.AWSVariables() {
		test.Env = append(test.Env, name+"="+value)
	}
	output, err := test.CombinedOutput()
	t.Logf("%s", output)
	if err != nil {
		t.Fatalf("predictions differ from what Karpenter does: %v", err)
	}
	for _, name := range []string{"TestPredictionsEqualKarpenter", "TestRandomPredictionsEqualKarpenter"} {
		if !bytes.Contains(output, []byte("PASS: "+name)) {
			t.Errorf("%s has compared no prediction", name)
		}
	}
}

// setting is a variable of the environment, or what it is otherwise.
func setting(name, otherwise string) string {
	if value, ok := os.LookupEnv(name); ok {
		return value
	}
	return otherwise
}
