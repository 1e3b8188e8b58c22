package stories_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// ownPoints are those of what `plumbline teardown` does beside reconciles: what it ends in AWS, and the NodeSync. Its passes are
// killed in other scenes.
var ownPoints = regexp.MustCompile(`(ec2|iam):|(patch|delete) nodesyncs#`)

// goneKubeconfig names an API server that does not answer.
const goneKubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: gone, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: gone, context: {cluster: gone, user: gone}}]
users: [{name: gone, user: {token: none}}]
current-context: gone
`

// endsScene has a teardown end something in AWS by itself, with the rights of its user, as of flags.
func endsScene(flags ...string) scene {
	whole := wholeScene()
	return scene{
		prepare: func(s *story, ts *testscript.TestScript) error {
			if err := s.clusterBack(ts); err != nil { // the scene before may have had it be gone
				return err
			}
			return s.withTwoPools(ts)
		},
		keeps: (*story).ofOthers,
		begin: func(*story, *testscript.TestScript) error { return nil },
		ended: func(ctx context.Context, s *story) error {
			return errors.Join(s.without(ctx, "nodesync/"+killedSync), s.unrecorded(ctx), s.nothingLeft())
		},
		deletes: whole.deletes,
		command: append([]string{
			"--as=admin", "--as-group=system:masters", "teardown", killedSync, "--yes", "--timeout", played.String(),
			"--cluster", "$CLUSTER", "--region", "$REGION",
		}, flags...),
		key: sandbox.VariableEnder, at: ownPoints,
	}
}

// sweepsScene has volumes and interfaces be left behind, which --sweep deletes.
func sweepsScene() scene {
	s := endsScene("--sweep")
	s.begin = func(s *story, _ *testscript.TestScript) error { return s.leave() }
	return s
}

// terminatesScene has Karpenter's role be gone, so that --terminate ends the instances. Once they are, the role is back, and
// Karpenter takes its finalizers off.
func terminatesScene() scene {
	s := endsScene("--terminate")
	s.begin = func(s *story, _ *testscript.TestScript) error { return s.awsCommand(nil, []string{"role", "gone"}) }
	ended := s.ended
	s.ended = func(ctx context.Context, s *story) error {
		if len(s.billed("general"))+len(s.billed("batch")) == 0 && s.awsCommand(nil, []string{"role", "back"}) == nil {
			// One that has been refused for long asks again seldom.
			if err := s.must("kubectl", "delete", "pod", "-n", sandbox.ChartNamespace, "-l", "app.kubernetes.io/name=karpenter"); err != nil {
				return err
			}
		}
		return ended(ctx, s)
	}
	return s
}

// clusterGoneScene has the cluster be gone, and all that it has in AWS be left. The sandbox's lives on, without Karpenter's
// controller, and begins anew for each run.
func clusterGoneScene() scene {
	s := endsScene()
	s.begin = func(s *story, _ *testscript.TestScript) error {
		return errors.Join(
			s.scaleKarpenter(0), s.leave(), s.c.AWS.SetClusterGone(s.c.Cluster, true),
			os.WriteFile(filepath.Join(s.dir, "gone.kubeconfig"), []byte(goneKubeconfig), 0o600),
		)
	}
	s.ended = func(_ context.Context, s *story) error { return s.nothingLeft() }
	s.command = []string{
		"teardown", "--cluster-gone", "--terminate", "--sweep", "--yes", "--timeout", played.String(),
		"--cluster", "$CLUSTER", "--region", "$REGION", "--account", "000000000000",
	}
	s.kubeconfig = "gone.kubeconfig"
	return s
}

// clusterBack has EKS know the cluster again, and all of its last play go.
func (s *story) clusterBack(ts *testscript.TestScript) error {
	if err := errors.Join(s.c.AWS.SetClusterGone(s.c.Cluster, false), s.scaleKarpenter(1)); err != nil {
		return err
	}
	if err := s.without(s.ctx, "nodesync/"+killedSync); err == nil {
		return nil
	}
	if err := s.daemon.Start(s.ctx); err != nil {
		return err
	}
	return s.finishCommand(ts, nil)
}

// scaleKarpenter has Karpenter's controller run, or not, where it is installed.
func (s *story) scaleKarpenter(replicas int) error {
	if _, err := s.get(s.ctx, "deployment/karpenter"); err != nil {
		return nil //nolint:nilerr // the first push installs it
	}
	if err := s.must("kubectl", "scale", "deployment", "karpenter", "-n", sandbox.ChartNamespace, fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		return err
	}
	return s.must("kubectl", "rollout", "status", "deployment", "karpenter", "-n", sandbox.ChartNamespace, "--timeout=120s")
}

// ofOthers are the instances of another cluster of the account.
func (s *story) ofOthers() []string { return s.billed("theirs") }

// nothingLeft says what the cluster has in AWS.
func (s *story) nothingLeft() error {
	if left := s.c.AWS.Left(s.c.Cluster); !left.Empty() {
		return fmt.Errorf("left in AWS: %s", left)
	}
	return nil
}
