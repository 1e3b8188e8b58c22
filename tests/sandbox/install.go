package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/charts"
)

// ChartNamespace is where the charts are installed.
const ChartNamespace = "kube-system"

// installCharts installs both charts with helm, as a person would: the CRDs
// first, then the controller with one replica. It does not wait for it.
func (s *Sandbox) installCharts(ctx context.Context, kubeconfig, repository string) error {
	common := []string{"--version", binaries.KarpenterVersion, "--namespace", ChartNamespace, "--plain-http", "--kubeconfig", kubeconfig}
	releases := [][]string{
		{"install", charts.CRDChart, repository + "/" + charts.CRDChart},
		{
			"install", charts.MainChart, repository + "/" + charts.MainChart, "--skip-crds",
			"--set", "settings.clusterName=" + s.Cluster, "--set", "replicas=1",
		},
	}
	for _, args := range releases {
		if err := s.helm(ctx, append(args, common...)...); err != nil {
			return err
		}
	}
	return nil
}

// helm runs helm with a home of the sandbox's.
func (s *Sandbox) helm(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.paths[binaries.Helm], args...)
	cmd.Env = []string{"HOME=" + s.path("home"), "PATH=/usr/bin:/bin", "NO_PROXY=127.0.0.1,localhost"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
