package stories_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// killedSync is the NodeSync of the scenes.
const killedSync = "killed"

// scene is something that the daemon has to complete, and that can be played many times.
type scene struct {
	// prepare brings the cluster to the start of the scene. No daemon runs then.
	prepare func(*story, *testscript.TestScript) error
	// keeps returns the instances that have to survive.
	keeps func(*story) []string
	// begin makes the change that the daemon handles once it is started.
	begin func(*story, *testscript.TestScript) error
	// ended returns what is missing until the scene is complete; nil if nothing.
	ended func(context.Context, *story) error
	// deletes are the kinds of definitions that the daemon deletes in it.
	deletes []string
	// command completes the scene if no daemon runs: a command of plumbline, with a user's permissions. It exits on its
	// own.
	command []string
	// key names the variable with its AWS access key; if empty, that of a user with read access. kubeconfig is a file
	// of the story's; if empty, its own.
	key, kubeconfig string
	// at matches the points for kills; if nil, all.
	at *regexp.Regexp
}

// scenes are those of `killed`.
var scenes = map[string]scene{
	"first-push": {
		prepare: (*story).withoutKarpenter,
		keeps:   func(*story) []string { return nil },
		begin:   func(s *story, ts *testscript.TestScript) error { return s.nodesyncCommand(ts, []string{killedSync}) },
		ended:   func(ctx context.Context, s *story) error { return s.inSync(ctx) },
	},
	"change": {
		prepare: (*story).withTwoPools,
		keeps:   func(s *story) []string { return s.billed("") },
		begin: func(s *story, ts *testscript.TestScript) error {
			edit := []string{"nodes/general.yaml", `limits: {cpu: "100"}`, `limits: {cpu: "60"}`}
			return s.commit("change a limit", func() error { return s.editCommand(ts, edit) })
		},
		ended: func(ctx context.Context, s *story) error { return errors.Join(s.inSync(ctx), s.limited(ctx, "60")) },
	},
	"removal": {
		prepare: (*story).withTwoPools,
		keeps:   func(s *story) []string { return s.billed("batch") },
		begin: func(s *story, _ *testscript.TestScript) error {
			return s.commit("remove a pool", func() error { return os.Remove(filepath.Join(s.repo.Clone, "nodes", "general.yaml")) })
		},
		ended: func(ctx context.Context, s *story) error {
			return errors.Join(s.inSync(ctx), s.without(ctx, "nodepool/general"), s.unrecorded(ctx))
		},
		deletes: []string{"nodeclaim", "nodepool"},
	},
	"deletion": {
		prepare: (*story).withTwoPools,
		keeps:   func(*story) []string { return nil },
		begin: func(s *story, _ *testscript.TestScript) error {
			return s.must("kubectl", "delete", "nodesync", killedSync, "--wait=false")
		},
		ended: func(ctx context.Context, s *story) error {
			return errors.Join(s.without(ctx, "nodesync/"+killedSync), s.unrecorded(ctx))
		},
		deletes: []string{"nodeclaim", "nodepool", "ec2nodeclass"},
	},
	"drain":    drainScene(),
	"stand-in": standInScene(),
	"whole":    wholeScene(),
	"upgrade":  upgradeScene(),
	"rollback": rollbackScene(),

	"sweeps":       sweepsScene(),
	"terminates":   terminatesScene(),
	"cluster-gone": clusterGoneScene(),
}

// withoutKarpenter deletes the NodeSync, all of Karpenter, and the daemon's cache.
func (s *story) withoutKarpenter(ts *testscript.TestScript) error {
	if s.daemon.Running() {
		if err := s.finishCommand(ts, nil); err != nil {
			return err
		}
	}
	for _, release := range []string{"karpenter", "karpenter-crd"} {
		if err := s.must("helm", "uninstall", "-n", "kube-system", release, "--ignore-not-found"); err != nil {
			return err
		}
	}
	if crds := s.karpenterCRDs(s.ctx); len(crds) > 0 { // the chart keeps them
		if err := s.must("kubectl", append([]string{"delete", "crd"}, crds...)...); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "daemon-"+s.c.Cluster, "cache")); err != nil {
		return err
	}
	return s.commit("the first nodes", func() error { return s.seedCommand(ts, nil) })
}

// withTwoPools prepares a NodeSync in sync with two pools, and a node in each.
func (s *story) withTwoPools(ts *testscript.TestScript) error {
	if err := s.commit("two pools", func() error { return s.seedCommand(ts, nil) }); err != nil {
		return err
	}
	return s.withNodes(ts)
}

// withNodes prepares a NodeSync in sync with what is pushed, and a node in each pool.
func (s *story) withNodes(ts *testscript.TestScript) error {
	if !s.daemon.Running() {
		if err := s.daemon.Start(s.ctx); err != nil {
			return err
		}
	}
	if err := s.nodesyncCommand(ts, []string{killedSync, "onDelete=Drain", "guard.unschedulablePods=Ignore"}); err != nil {
		return err
	}
	if err := s.poll(played, s.inSync); err != nil {
		return err
	}
	for name, pool := range map[string]string{"web": "general", "job": "batch"} {
		if err := s.workloadCommand(ts, []string{"-t", played.String(), name, "replicas=1", "pool=" + pool}); err != nil {
			return err
		}
	}
	return s.daemon.Stop()
}

// commit pushes the changes that change makes in the clone, if any.
func (s *story) commit(message string, change func() error) error {
	if err := change(); err != nil {
		return err
	}
	changes, err := s.repo.Git(s.ctx, "status", "--porcelain")
	if err != nil || changes == "" {
		return err
	}
	_, err = s.repo.Push(s.ctx, message)
	return err
}

// inSync returns what is missing until a NodeSync is Ready at HEAD, and the commit status shows it.
func (s *story) inSync(ctx context.Context) error {
	return s.saidAtHead(ctx, "success", "Ready=True")
}

// saidAtHead returns what is missing until a NodeSync matches terms, and a commit has a status with a state.
func (s *story) saidAtHead(ctx context.Context, state string, terms ...string) error {
	want, err := s.expectation("nodesync/"+killedSync, terms)
	if err != nil {
		return err
	}
	sync, err := s.get(ctx, "nodesync/"+killedSync)
	if err != nil {
		return err
	}
	if err := want.unmet(sync); err != nil {
		return err
	}
	return s.lastSaid(ctx, want.at, state)
}

// lastSaid returns an error if the newest status of a commit is another one.
func (s *story) lastSaid(ctx context.Context, commit, state string) error {
	statuses, err := s.repo.Statuses(ctx, commit)
	if err != nil {
		return err
	}
	statuses = githost.On("", statuses)
	if len(statuses) == 0 || statuses[len(statuses)-1].State != state {
		return fmt.Errorf("the statuses of commit %s are %v", commit, statuses)
	}
	return nil
}

// limited returns what is missing until pool general has a limit.
func (s *story) limited(ctx context.Context, cpu string) error {
	pool, err := s.get(ctx, "nodepool/general")
	if err != nil {
		return err
	}
	if got, _, _ := unstructured.NestedString(pool.Object, "spec", "limits", "cpu"); got != cpu {
		return fmt.Errorf("the limit of pool general is %q, and Git's %q", got, cpu)
	}
	return nil
}

// without returns an error if an object still exists.
func (s *story) without(ctx context.Context, what string) error {
	_, err := s.get(ctx, what)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("%s is there", what), err)
}

// unrecorded returns an error if a removal is still recorded. For a completed one, the record may contain pods that no
// pool can run.
func (s *story) unrecorded(ctx context.Context) error {
	name := "plumbline-" + killedSync
	record, err := s.c.Kube.Client.CoreV1().ConfigMaps(daemon.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if open, err := daemon.OpenRemovals(record); err != nil || len(open) > 0 {
		return errors.Join(fmt.Errorf("configmap %s has removals %v", name, open), err)
	}
	return nil
}

// pointsOf returns the points of a trace at which the scene is killed.
func (c scene) pointsOf(trace []string) []string {
	return slices.DeleteFunc(representative(trace), func(point string) bool { return c.at != nil && !c.at.MatchString(point) })
}
