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

// ownPoints matches the points of what `plumbline teardown` does besides reconciles: what it deletes in AWS, and the
// NodeSync. Other scenes kill its reconciles.
var ownPoints = regexp.MustCompile(`(ec2|iam):|(patch|delete) nodesyncs#`)

// goneKubeconfig names an API server that does not respond.
const goneKubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: gone, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: gone, context: {cluster: gone, user: gone}}]
users: [{name: gone, user: {token: none}}]
current-context: gone
`

// endsScene makes a teardown with flags delete something in AWS itself, with its user's permissions.
func endsScene(flags ...string) scene {
	whole := wholeScene()
	return scene{
		prepare: func(s *story, ts *testscript.TestScript) error {
			if err := s.clusterBack(ts); err != nil { // the scene before may have hidden it
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

// sweepsScene leaves volumes and interfaces behind, which --sweep deletes.
func sweepsScene() scene {
	s := endsScene("--sweep")
	s.begin = func(s *story, _ *testscript.TestScript) error { return s.leave() }
	return s
}

// terminatesScene deletes Karpenter's role, so that --terminate terminates the instances. After that, it restores the
// role, and Karpenter removes its finalizers.
func terminatesScene() scene {
	s := endsScene("--terminate")
	s.begin = func(s *story, _ *testscript.TestScript) error { return s.awsCommand(nil, []string{"role", "gone"}) }
	ended := s.ended
	s.ended = func(ctx context.Context, s *story) error {
		if len(s.billed("general"))+len(s.billed("batch")) == 0 && s.awsCommand(nil, []string{"role", "back"}) == nil {
			// After many refusals, a controller retries rarely.
			if err := s.must("kubectl", "delete", "pod", "-n", sandbox.ChartNamespace, "-l", "app.kubernetes.io/name=karpenter"); err != nil {
				return err
			}
		}
		return ended(ctx, s)
	}
	return s
}

// clusterGoneScene hides the cluster from EKS, and leaves all that it has in AWS. The sandbox's cluster still runs,
// without Karpenter's controller, and is reset for each run.
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

// clusterBack makes the cluster visible in EKS again, and deletes all of its last play.
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

// scaleKarpenter starts or stops Karpenter's controller, if it is installed.
func (s *story) scaleKarpenter(replicas int) error {
	if _, err := s.get(s.ctx, "deployment/karpenter"); err != nil {
		return nil //nolint:nilerr // the first push installs it
	}
	if err := s.must("kubectl", "scale", "deployment", "karpenter", "-n", sandbox.ChartNamespace, fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		return err
	}
	return s.must("kubectl", "rollout", "status", "deployment", "karpenter", "-n", sandbox.ChartNamespace, "--timeout=120s")
}

// ofOthers returns the instances of another cluster in the account.
func (s *story) ofOthers() []string { return s.billed("theirs") }

// nothingLeft returns an error that lists what the cluster has in AWS.
func (s *story) nothingLeft() error {
	if left := s.c.AWS.Left(s.c.Cluster); !left.Empty() {
		return fmt.Errorf("left in AWS: %s", left)
	}
	return nil
}
