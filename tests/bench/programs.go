package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// programsOf are the programs of one peer.
type programsOf []*process.Process

// run starts a program of a peer's, with its own variables beside the usual ones.
func (g *ground) run(ctx context.Context, name, path string, args, env []string) (*process.Process, error) {
	dir := g.path(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", name, err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := g.kube.ServiceAccountKubeconfig(ctx, kubeconfig, peersNamespace, peersNamespace, nil); err != nil {
		return nil, err
	}
	usual := []string{
		"KUBECONFIG=" + kubeconfig, "HOME=" + dir, "TMPDIR=" + dir, "NO_PROXY=127.0.0.1,localhost",
		"PATH=/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM=1",
	}
	return g.programs.Start(process.Spec{Name: name, Path: path, Args: args, Env: append(usual, env...), Dir: dir, Log: filepath.Join(dir, "log")})
}

// cpu is the processor time of all of them.
func (all programsOf) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, p := range all {
		used, err := watched(p.PID()).cpu()
		if err != nil {
			return 0, fmt.Errorf("%w (%w)", err, p.Err())
		}
		sum += used
	}
	return sum, nil
}

// memory is what each of them holds, in bytes.
func (all programsOf) memory() ([]int64, error) {
	var each []int64
	for _, p := range all {
		resident, _, err := watched(p.PID()).memory()
		if err != nil {
			return nil, err
		}
		each = append(each, resident)
	}
	return each, nil
}

// end ends them, the last one first.
func (all programsOf) end(context.Context) error {
	for _, p := range slices.Backward(all) {
		p.Stop(0)
	}
	return nil
}
