package stories_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/charts"
)

// older is the version from which the upgrade scene starts.
const older = "1.8.6"

// upgradeScene upgrades an older Karpenter that has nodes to the newest.
func upgradeScene() scene {
	made := &revisions{}
	return scene{
		prepare: (*story).withOlderKarpenter,
		keeps:   func(s *story) []string { return s.billed("") },
		begin: func(s *story, ts *testscript.TestScript) error {
			if err := made.begin(s); err != nil {
				return err
			}
			edit := []string{"plumbline.yaml", "version: " + older, "version: " + binaries.KarpenterVersion}
			return s.commit("upgrade", func() error { return s.editCommand(ts, edit) })
		},
		ended: func(ctx context.Context, s *story) error {
			return errors.Join(s.inSync(ctx), s.inForce(ctx, binaries.KarpenterVersion, ""), made.atMost(ctx, s, 1, 1))
		},
	}
}

// rollbackScene gives the controller a value with which it crashes.
func rollbackScene() scene {
	made := &revisions{}
	return scene{
		prepare: func(s *story, ts *testscript.TestScript) error {
			if err := s.nodesyncCommand(ts, []string{killedSync, "timeout=25s"}); err != nil {
				return err
			}
			return s.withTwoPools(ts)
		},
		keeps: func(s *story) []string { return s.billed("") },
		begin: func(s *story, ts *testscript.TestScript) error {
			if err := made.begin(s); err != nil {
				return err
			}
			edit := []string{"plumbline.yaml", "replicas: 1", "replicas: 1, settings: {preferencePolicy: Never}"}
			return s.commit("a value that it does not survive", func() error { return s.editCommand(ts, edit) })
		},
		ended: func(ctx context.Context, s *story) error {
			return errors.Join(s.refusedAtHead(ctx, "UpgradeFailed"), s.inForce(ctx, binaries.KarpenterVersion, "RolledBack"), made.atMost(ctx, s, 0, 2))
		},
	}
}

// revisions are those that a scene has made of the two releases.
type revisions struct{ before map[string]revision }

func (r *revisions) begin(s *story) (err error) {
	r.before, err = s.releases(s.ctx)
	return err
}

// atMost checks that there are no more new revisions than the change needs, plus one of each per kill of the daemon: it
// may have been creating one.
func (r *revisions) atMost(ctx context.Context, s *story, crds, controller int) error {
	now, err := s.releases(ctx)
	if err != nil {
		return err
	}
	kills, err := s.kills()
	if err != nil {
		return err
	}
	for release, needed := range map[string]int{charts.CRDChart: crds, charts.MainChart: controller} {
		if made := now[release].number - r.before[release].number; made > needed+kills {
			return fmt.Errorf("%d revisions of release %s were made with %d kills, and %d are needed", made, release, kills, needed)
		}
	}
	return nil
}

// kills returns how often the daemon has killed itself in this play.
func (s *story) kills() (int, error) {
	trace, err := os.ReadFile(s.traceFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return strings.Count(string(trace), killedThere+"\n"), nil
}

// withOlderKarpenter prepares nodes of an older Karpenter, with its own CRDs, after deleting everything from the play
// before.
func (s *story) withOlderKarpenter(ts *testscript.TestScript) error {
	if err := s.withoutKarpenter(ts); err != nil {
		return err
	}
	edit := []string{"plumbline.yaml", "version: " + binaries.KarpenterVersion, "version: " + older}
	if err := s.commit("the older Karpenter", func() error { return s.editCommand(ts, edit) }); err != nil {
		return err
	}
	return s.withNodes(ts)
}

// inForce returns what is missing until a version leads, with the target of the charts at a step, or none.
func (s *story) inForce(ctx context.Context, version, step string) error {
	sync, err := s.get(ctx, "nodesync/"+killedSync)
	if err != nil {
		return err
	}
	is, _, _ := unstructured.NestedString(sync.Object, "status", "karpenter", "version")
	at, _, _ := unstructured.NestedString(sync.Object, "status", "karpenter", "target", "step")
	if is != version || at != step {
		return fmt.Errorf("Karpenter %s is in force, and the charts are at step %q", is, at)
	}
	return s.c.Leads(ctx, version)
}

// refusedAtHead returns what is missing until a NodeSync has failed at HEAD with a reason, and the commit status shows
// it.
func (s *story) refusedAtHead(ctx context.Context, reason string) error {
	return s.saidAtHead(ctx, "failure", "Ready=False", "reason="+reason, "at=HEAD")
}
