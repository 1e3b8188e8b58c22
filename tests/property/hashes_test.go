package property

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// olderKubernetes is a version that each of the controllers supports.
const olderKubernetes = "1.33"

// TestHashes compares the hashes that plumbline computes with those that the real controllers annotate, 200 generated
// EC2NodeClasses and NodePools each. PLUMBLINE_HASHES selects versions of Karpenter, with commas.
func TestHashes(t *testing.T) {
	if full, _ := os.LookupEnv("PLUMBLINE_FULL"); full != "1" {
		t.Skip("takes minutes: told with PLUMBLINE_FULL=1")
	}
	t.Parallel()
	for _, of := range []struct{ karpenter, classHash string }{
		{"1.8.6", "v4"}, {"1.12.1", "v5"}, {"1.14.3", "v5"}, {"1.15.0", "v6"},
	} {
		t.Run(of.karpenter, func(t *testing.T) {
			if chosen := setting("PLUMBLINE_HASHES", of.karpenter); !strings.Contains(","+chosen+",", ","+of.karpenter+",") {
				t.Skip("not in PLUMBLINE_HASHES")
			}
			s := karpenterAt(t, of.karpenter)
			test := exec.CommandContext(t.Context(), "go", "test", "-trimpath", "-count=1", "-timeout=60m",
				"-run=^TestHashesEqualKarpenter$", "-v", "./reconcile/plan", "-args",
				"-karpenter="+s.Kube.Kubeconfig, "-class-hash="+of.classHash, "-rapid.checks=200", "-rapid.nofailfile")
			var err error
			if test.Dir, err = filepath.Abs(filepath.Join("..", "..")); err != nil {
				t.Fatal(err)
			}
			output, err := test.CombinedOutput()
			t.Logf("%s", output)
			if err != nil {
				t.Fatalf("hashes differ from those of Karpenter %s: %v", of.karpenter, err)
			}
			if !bytes.Contains(output, []byte("PASS: TestHashesEqualKarpenter/NodePool")) {
				t.Error("no hash was compared")
			}
		})
	}
}

// karpenterAt starts a sandbox in which a version of Karpenter runs.
func karpenterAt(t *testing.T, version string) *sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.Up(t.Context(), sandbox.Options{Kubernetes: olderKubernetes, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Down(); err != nil {
			t.Error(err)
		}
	})
	if err := s.PullControllers(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	if err := s.InstallCRDs(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	if err := s.InstallController(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	var leads error
	err = wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		leads = s.Leads(ctx, version)
		return leads == nil, nil
	})
	if err != nil {
		t.Fatalf("wait until Karpenter %s leads: %v: %v", version, err, leads)
	}
	return s
}
