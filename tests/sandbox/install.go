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

// ChartNamespace is the namespace of the charts.
const ChartNamespace = "kube-system"

// InstallCRDs installs or upgrades the CRD chart of a release with helm, as a person would.
func (s *Sandbox) InstallCRDs(ctx context.Context, version string) error {
	return s.person().installCRDs(ctx, version)
}

// InstallController does so with the main chart, with one replica; values are those of helm's --set. It does not wait
// for the pod.
func (s *Sandbox) InstallController(ctx context.Context, version string, values ...string) error {
	return s.person().installController(ctx, version, values...)
}

// person is a user who installs the charts, and where they come from.
type person struct {
	sandbox                *Sandbox
	kubeconfig, repository string
}

func (s *Sandbox) person() person {
	return person{sandbox: s, kubeconfig: s.Kube.Kubeconfig, repository: s.Charts.Repository}
}

// installCharts installs them in the right order.
func (p person) installCharts(ctx context.Context, version string) error {
	if err := p.installCRDs(ctx, version); err != nil {
		return err
	}
	return p.installController(ctx, version)
}

func (p person) installCRDs(ctx context.Context, version string) error {
	return p.install(ctx, charts.CRDChart, version)
}

func (p person) installController(ctx context.Context, version string, values ...string) error {
	args := []string{"--skip-crds"}
	for _, value := range append([]string{"settings.clusterName=" + p.sandbox.Cluster, "replicas=1"}, values...) {
		args = append(args, "--set", value)
	}
	return p.install(ctx, charts.MainChart, version, args...)
}

func (p person) install(ctx context.Context, chart, version string, args ...string) error {
	return p.sandbox.helm(ctx, append([]string{
		"upgrade", "--install", chart, p.repository + "/" + chart, "--version", version,
		"--namespace", ChartNamespace, "--plain-http", "--kubeconfig", p.kubeconfig,
	}, args...)...)
}

// helm runs helm with a home folder in the sandbox.
func (s *Sandbox) helm(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.paths[binaries.Helm], args...)
	cmd.Env = []string{"HOME=" + s.path("home"), "PATH=/usr/bin:/bin", "NO_PROXY=127.0.0.1,localhost"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
