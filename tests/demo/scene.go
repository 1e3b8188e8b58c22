package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
	"github.com/plumbline-dev/plumbline/tests/stories/repository"
)

const (
	// name is the name of the cluster, the repository and the NodeSync.
	name    = "demo"
	example = "examples/basic"
	// policy is the example's NodeSync: it is applied to the cluster, not committed.
	policy = "nodesync.yaml"
	// patience is the maximum duration of one step, on a busy machine.
	patience = 3 * time.Minute
)

// scene is everything that the demo needs.
type scene struct {
	*teller
	root    string
	staying bool
	camera  *camera // nil if nothing is recorded

	home    string // a folder next to the sandbox's
	sandbox *sandbox.Sandbox
	objects dynamic.Interface
	daemon  *daemon.Daemon
	repo    *repository.Repository
	commits []commit
	said    map[string]string // what was printed already, by its subject
}

// commit is one that was pushed.
type commit struct {
	hash, message string
}

// play plays the demo from start to end.
func (s *scene) play(ctx context.Context) error {
	for _, act := range []func(context.Context) error{
		s.openCluster, s.pushNodes, s.runWorkloads, s.askFirst, s.removePool, s.showStatuses, s.clear,
	} {
		if err := act(ctx); err != nil {
			if ctx.Err() == nil {
				s.failed("%v", err)
				s.showLog()
			}
			return err
		}
	}
	return nil
}

// openCluster starts an empty cluster and installs plumbline.
func (s *scene) openCluster(ctx context.Context) error {
	s.begin("An empty cluster on this machine: everything is real but AWS")
	var err error
	if s.home, err = os.MkdirTemp("", "plumbline-demo-"); err != nil {
		return err
	}
	s.sandbox, err = sandbox.Up(ctx, sandbox.Options{Cluster: name, WithGit: true, Progress: os.Stderr})
	if err != nil {
		return err
	}
	if s.objects, err = dynamic.NewForConfig(s.sandbox.Kube.Config); err != nil {
		return err
	}
	s.learn()
	s.done("Kubernetes with two system nodes, an AWS account, a chart registry, a Git host: %s", s.sandbox.Git.URL)
	s.sandbox.AWS.Subscribe(s.tellInstance)
	if err := daemon.Install(ctx, s.sandbox.Kube, s.root); err != nil {
		return err
	}
	s.daemon = daemon.New(daemon.Options{
		Kube: s.sandbox.Kube, AWS: s.sandbox.AWSVariables(), Root: s.root, Dir: filepath.Join(s.home, "daemon"),
	})
	if err := s.daemon.Start(ctx); err != nil {
		return err
	}
	s.done("plumbline: kubectl apply -k manifests; the daemon runs with that ServiceAccount's rights")
	return nil
}

// tellInstance prints EC2's events of instances.
func (s *scene) tellInstance(e awssim.Event) {
	i := e.Instance
	pool := i.Tags["karpenter.sh/nodepool"]
	switch e.Kind {
	case awssim.Launched:
		s.going("EC2: %s launched, %s in %s for pool %s", i.ID, i.Type, i.Zone, pool)
	case awssim.Terminated:
		s.going("EC2: %s terminated (pool %s)", i.ID, pool)
	case awssim.Running, awssim.Stopping, awssim.ShuttingDown:
	}
}

// copyExample copies the example into the clone. The only change is the location of the charts: this machine's
// registry.
func (s *scene) copyExample() error {
	from := filepath.Join(s.root, filepath.FromSlash(example))
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == policy {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if file == "plumbline.yaml" {
			data = append([]byte(strings.TrimSpace(string(data))), fmt.Appendf(nil, "\nrepository: %s\nvalues: {replicas: 1}\n", s.sandbox.Charts.Repository)...)
		}
		return s.repo.Write(filepath.ToSlash(file), data)
	})
	if err != nil {
		return fmt.Errorf("copy %s into the clone: %w", example, err)
	}
	return nil
}

func (s *scene) push(ctx context.Context, message string) error {
	hash, err := s.repo.Push(ctx, message)
	if err != nil {
		return err
	}
	s.commits = append(s.commits, commit{hash: hash, message: message})
	s.done("git push: %s %q", hash[:8], message)
	return nil
}

func (s *scene) showLog() {
	if s.daemon != nil {
		s.say("the end of the daemon's log:\n" + s.daemon.LogTail(20) + "\n")
	}
}

// end stops everything that was started.
func (s *scene) end() error {
	var err error
	if s.daemon != nil {
		s.daemon.Close()
	}
	if s.sandbox != nil {
		err = s.sandbox.Down()
	}
	if s.home != "" {
		err = errors.Join(err, os.RemoveAll(s.home))
	}
	return err
}
