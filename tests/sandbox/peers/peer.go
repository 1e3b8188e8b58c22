package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// ErrMissing means that a peer is not available on this machine.
var ErrMissing = errors.New("cannot be had here")

// usualPath is where to look for programs of the system.
const usualPath = "/usr/local/bin:/usr/bin:/bin"

// Options specify where a peer runs.
type Options struct {
	Kube *kube.ControlPlane
	// Builder builds the programs that are not in its cache.
	Builder *binaries.Builder
	// Dir contains a folder for each program, with its log.
	Dir string
	// Events is the URL to which Flux's controllers send their events. Optional.
	Events string
}

// Peer is a running tool.
type Peer struct {
	// Users are its programs' users for the API server.
	Users []string
	// Processes are its programs, in start order.
	Processes []*process.Process

	options   Options
	namespace string
	programs  *process.Group
	logs      []string
}

// program is one of a peer's.
type program struct {
	// name is also the name of its ServiceAccount.
	name, path string
	args, env  []string
}

func newPeer(o Options, namespace string) *Peer {
	return &Peer{options: o, namespace: namespace, programs: process.NewGroup()}
}

// start starts the programs, one after another. On an error, it leaves none running.
func (p *Peer) start(ctx context.Context, all ...program) error {
	for _, one := range all {
		if err := p.run(ctx, one); err != nil {
			p.Stop()
			return err
		}
	}
	return nil
}

func (p *Peer) run(ctx context.Context, one program) error {
	dir := p.path(one.name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of %s: %w", one.name, err)
	}
	user, kubeconfig := "system:serviceaccount:"+p.namespace+":"+one.name, filepath.Join(dir, "kubeconfig")
	if err := p.options.makeAccount(ctx, p.namespace, one.name); err != nil {
		return err
	}
	if err := p.options.Kube.ServiceAccountKubeconfig(ctx, kubeconfig, p.namespace, one.name, nil); err != nil {
		return err
	}
	usual := []string{
		"KUBECONFIG=" + kubeconfig, "HOME=" + dir, "TMPDIR=" + dir, "NO_PROXY=127.0.0.1,localhost",
		"PATH=" + usualPath, "GIT_CONFIG_NOSYSTEM=1",
	}
	log := filepath.Join(dir, "log")
	started, err := p.programs.Start(process.Spec{Name: one.name, Path: one.path, Args: one.args, Env: append(usual, one.env...), Dir: dir, Log: log})
	if err != nil {
		return err
	}
	p.Users, p.Processes, p.logs = append(p.Users, user), append(p.Processes, started), append(p.logs, log)
	return nil
}

func (p *Peer) path(name string) string { return filepath.Join(p.options.Dir, name) }

// Logs returns the log files of its programs.
func (p *Peer) Logs() []string { return slices.Clone(p.logs) }

// Stop kills its programs. What they have applied is kept.
func (p *Peer) Stop() { p.programs.Close() }
