package stories_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// apart is a NodePool without a NodeSync. Its nodes have to survive a drain.
const apart = "apart"

const apartManifest = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: apart}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
      expireAfter: Never
`

// drainScene drains all nodes of the NodeSync, and keeps its definitions.
func drainScene() scene {
	return scene{
		prepare: (*story).withNodesApart,
		keeps:   func(s *story) []string { return s.billed(apart) },
		begin: func(s *story, ts *testscript.TestScript) error {
			return s.nodesyncCommand(ts, []string{killedSync, "drain=true"})
		},
		ended:   func(ctx context.Context, s *story) error { return s.drained(ctx) },
		deletes: []string{"nodeclaim"},
	}
}

// standInScene makes `plumbline teardown` do that without a leading daemon: it runs the reconciles itself.
func standInScene() scene {
	s := drainScene()
	s.begin = func(*story, *testscript.TestScript) error { return nil }
	s.command = []string{
		"--as=admin", "--as-group=system:masters", "teardown", killedSync, "--down-to", "nodes", "--yes", "--timeout", played.String(),
	}
	return s
}

// wholeScene makes the same command delete everything, down to Karpenter's CRDs. Once the NodeSync is gone, it
// continues with the cluster's name.
func wholeScene() scene {
	return scene{
		prepare: (*story).withTwoPools,
		keeps:   func(*story) []string { return nil },
		begin:   func(*story, *testscript.TestScript) error { return nil },
		ended: func(ctx context.Context, s *story) error {
			return errors.Join(s.without(ctx, "nodesync/"+killedSync), s.unrecorded(ctx), s.unserved(ctx))
		},
		deletes: []string{"nodeclaim", "nodepool", "ec2nodeclass"},
		command: []string{
			"--as=admin", "--as-group=system:masters", "teardown", killedSync, "--down-to", "crds", "--yes", "--timeout", played.String(),
			"--cluster", "$CLUSTER", "--region", "$REGION",
		},
	}
}

// unserved returns an error that lists what is left of Karpenter: releases, CRDs, instances.
func (s *story) unserved(ctx context.Context) error {
	releases, err := s.releases(ctx)
	if err != nil {
		return err
	}
	if crds := s.karpenterCRDs(ctx); len(releases)+len(crds) > 0 {
		return fmt.Errorf("left of Karpenter are releases %v, CRDs %v", releases, crds)
	}
	return s.nothingLeft()
}

// withNodesApart prepares a NodeSync in sync that is not drained, with a node in each of its pools, and in one that
// nobody manages.
func (s *story) withNodesApart(ts *testscript.TestScript) error {
	if err := s.nodesyncCommand(ts, []string{killedSync, "drain=false"}); err != nil {
		return err
	}
	if err := s.withTwoPools(ts); err != nil {
		return err
	}
	if err := s.apply([]byte(apartManifest)); err != nil {
		return err
	}
	return s.workloadCommand(ts, []string{"-t", played.String(), "stranger", "replicas=1", "pool=" + apart})
}

// drained returns what is missing until a NodeSync has no nodes left.
func (s *story) drained(ctx context.Context) error {
	want, err := s.expectation("nodesync/"+killedSync, []string{"Ready=True", "reason=Drained"})
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
	for _, pool := range []string{"general", "batch"} {
		if left := s.billed(pool); len(left) > 0 {
			return fmt.Errorf("pool %s has %v", pool, left)
		}
	}
	return nil
}

// asUser returns the environment of the user who runs the command.
func (k *killing) asUser() []string {
	kubeconfig, key := k.kubeconfig(), cmp.Or(k.scene.key, sandbox.VariableVerifier)
	if k.scene.kubeconfig != "" {
		kubeconfig = filepath.Join(k.dir, k.scene.kubeconfig)
	}
	return append(k.c.Environment(), "KUBECONFIG="+kubeconfig, "TMPDIR="+k.dir, "AWS_ACCESS_KEY_ID="+k.c.Variables()[key])
}

// start starts what completes the scene, with flags for step points.
func (k *killing) start(flags ...string) error {
	if len(k.scene.command) > 0 {
		named := strings.NewReplacer("$CLUSTER", k.c.Cluster, "$REGION", k.c.Region)
		command := make([]string, 0, len(k.scene.command)+len(flags))
		for _, word := range k.scene.command {
			command = append(command, named.Replace(word))
		}
		return k.daemon.StartCommand(k.asUser(), append(command, flags...))
	}
	return k.daemon.StartSteps(k.ctx, flags...)
}

// startAgain restarts it after the last kill.
func (k *killing) startAgain() error {
	if len(k.scene.command) > 0 {
		return k.start()
	}
	return k.daemon.Start(k.ctx)
}

// endsWell waits until a command has exited successfully. A daemon keeps running.
func (k *killing) endsWell() error {
	if len(k.scene.command) == 0 {
		return nil
	}
	return k.daemon.EndsWell()
}
