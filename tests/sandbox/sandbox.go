package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/charts"
	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
	"github.com/plumbline-dev/plumbline/tests/sandbox/karpenter"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/nodes"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// Sandbox is a running cluster with everything around it.
type Sandbox struct {
	// Dir contains everything of this sandbox, including logs.
	Dir string
	// Cluster and Region are the EKS cluster's.
	Cluster, Region string
	// Kube is the control plane, and Nodes are its machines.
	Kube  *kube.ControlPlane
	Nodes *nodes.Nodes
	// AWS is the simulator, AWSEndpoint its URL.
	AWS         *awssim.Simulator
	AWSEndpoint string
	// Charts is the registry with Karpenter's charts.
	Charts *charts.Registry
	// Karpenter runs the controller while its Deployment wants it.
	Karpenter *karpenter.Supervisor
	// Git is the Git host, nil without Options.WithGit.
	Git *githost.Host

	options   Options
	temporary bool
	logs      *karpenter.Logs
	builder   *binaries.Builder
	paths     map[binaries.Name]string
	programs  *process.Group
	end       context.CancelFunc
	closers   []func() error // called by Down, the last one first
}

// Up builds what is missing, starts a sandbox and returns when its cluster and its system nodes are ready. ctx bounds
// the start, not the sandbox: Down stops it.
func Up(ctx context.Context, options Options) (*Sandbox, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	builder := &binaries.Builder{Source: options.Source, Cache: options.Cache, Progress: &binaries.Progress{Out: options.Progress}}
	paths, err := builder.Build(ctx, options.Programs()...)
	if err != nil {
		return nil, err
	}
	dir, temporary, err := options.folder()
	if err != nil {
		return nil, fmt.Errorf("make the sandbox's folder: %w", err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &Sandbox{
		Dir: dir, Cluster: options.Cluster, Region: options.Region,
		options: options, temporary: temporary, builder: builder, paths: paths, programs: process.NewGroup(), end: end,
	}
	stopped := context.AfterFunc(ctx, end) // during the start, ctx stops it
	err = s.start(life)
	if err == nil && !stopped() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a sandbox in %s: %w", dir, err), s.Down())
	}
	return s, nil
}

// start starts the parts, the Git host in parallel to the others.
func (s *Sandbox) start(ctx context.Context) error {
	if err := s.writeTools(); err != nil {
		return err
	}
	var git *githost.Host
	beside, besideCtx := errgroup.WithContext(ctx)
	if s.options.WithGit {
		beside.Go(func() (err error) {
			git, err = s.startGit(ctx)
			return err
		})
	}
	beside.Go(func() error { return s.startCluster(ctx, besideCtx) })
	err := beside.Wait()
	if git != nil {
		s.Git = git
		s.onDown(git.Close)
	}
	return err
}

// startCluster starts everything except the Git host. What it starts lives as long as life; ctx bounds the wait.
func (s *Sandbox) startCluster(life, ctx context.Context) error {
	if err := s.startKube(ctx); err != nil {
		return err
	}
	if err := s.startAWS(life); err != nil {
		return err
	}
	if err := s.startCharts(life); err != nil {
		return err
	}
	if err := s.startLogs(); err != nil {
		return err
	}
	if err := s.startNodes(life); err != nil {
		return err
	}
	return s.startKarpenter(life)
}

func (s *Sandbox) path(name string) string { return filepath.Join(s.Dir, name) }

// onDown makes Down call f before it stops what was started earlier.
func (s *Sandbox) onDown(f func() error) { s.closers = append(s.closers, f) }

// Down stops the sandbox, and removes its folder if that was a temporary one.
func (s *Sandbox) Down() error {
	var failed error
	for i := len(s.closers) - 1; i >= 0; i-- {
		failed = errors.Join(failed, s.closers[i]())
	}
	s.closers = nil
	s.end()
	s.programs.Close()
	if s.temporary {
		failed = errors.Join(failed, os.RemoveAll(s.Dir))
	}
	if failed != nil {
		return fmt.Errorf("end the sandbox in %s: %w", s.Dir, failed)
	}
	return nil
}
