package release

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/contradiction"
	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// upgraded has 1.15.0 in the cluster over 1.14.1, with other values.
func upgraded(t *testing.T) *bed {
	t.Helper()
	b := newBed(t)
	b.want.Values = map[string]any{"replicas": 3}
	b.both()
	b.want.Values = map[string]any{"replicas": 5}
	newer := stored(b.T, "1.15.0", chartstest.CRDs(t, "1.15.0"), chartstest.Controller(t, "1.15.0"))
	newer.CRDDigest, newer.Digest = "sha256:"+strings.Repeat("e", 64), "sha256:"+strings.Repeat("f", 64)
	b.charts = newer
	b.both()
	return b
}

// TestRollBack: the controller goes back with the chart and the values that it
// had, from the release alone; the CRDs stay.
func TestRollBack(t *testing.T) {
	for name, status := range map[string]string{"after an upgrade": "", "in the middle of one": "pending-upgrade"} {
		t.Run(name, func(t *testing.T) {
			b := upgraded(t)
			if status != "" {
				b.setStatus("sh.helm.release.v1.karpenter.v2", status)
			}
			result, err := b.installer.RollBack(t.Context(), b.want, 1)
			if err != nil || !result.Changed || result.Revision != 3 {
				t.Fatalf("RollBack() = %+v, %v", result, err)
			}
			state := b.state()
			if state.Controller.Mark.Version != "1.14.1" || state.Controller.Status != Deployed || state.Controller.Edited {
				t.Errorf("the controller's release is %+v", state.Controller)
			}
			if state.CRDs.Mark.Version != "1.15.0" || state.CRDs.Revision != 2 {
				t.Errorf("the CRDs' release is %+v", state.CRDs)
			}
			if spec := b.api.get(deploymentPath)["spec"].(map[string]any); spec["replicas"] != float64(3) {
				t.Errorf("the Deployment has %v", spec)
			}
			b.api.takeWrites()
			again, err := b.installer.RollBack(t.Context(), b.want, 1)
			if diff := cmp.Diff(Result{Step: Keep, Revision: 3, Version: "1.14.1"}, again); err != nil || diff != "" {
				t.Errorf("once more (-want +got):\n%s%v", diff, err)
			}
			if writes := b.api.takeWrites(); len(writes) > 0 {
				t.Errorf("it was there, and it wrote %v", writes)
			}
		})
	}
}

func TestRollBackToWhatIsGone(t *testing.T) {
	b := upgraded(t)
	_, err := b.installer.RollBack(t.Context(), b.want, 7)
	if gone := (*NoRevisionError)(nil); !errors.As(err, &gone) || gone.Revision != 7 {
		t.Errorf("RollBack() = %v, want NoRevisionError", err)
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}

// TestNewerCRDsArePutRightAsTheyAre: where the controller went back, what
// somebody deletes of the newer CRDs comes again as it was, and not as the older
// chart has it.
func TestNewerCRDsArePutRightAsTheyAre(t *testing.T) {
	b := upgraded(t)
	b.charts = stored(b.T, "1.14.1", chartstest.CRDs(t, "1.14.1"), chartstest.Controller(t, "1.14.1"))
	b.api.takeWrites()
	if result, err := b.crds(); err != nil || result.Changed {
		t.Fatalf("older CRDs = %+v, %v; want nothing done", result, err)
	}
	path := crdsPath + "/nodepools.karpenter.sh"
	b.api.mu.Lock()
	delete(b.api.objects, path)
	b.api.mu.Unlock()
	result, err := b.crds()
	if err != nil || result.Step != Repair {
		t.Fatalf("repair = %+v, %v", result, err)
	}
	if state := b.state(); state.CRDs.Mark.Version != "1.15.0" || b.api.get(path) == nil {
		t.Errorf("the CRDs' release is %+v, the CRD %v", state.CRDs, b.api.get(path))
	}
}

// TestRehearse: nothing is written, whatever is found.
func TestRehearse(t *testing.T) {
	t.Run("into an empty cluster", func(t *testing.T) {
		b := newBed(t)
		if err := b.installer.Rehearse(t.Context(), b.charts, b.want); err != nil {
			t.Error(err)
		}
		if writes := b.api.takeWrites(); len(writes) > 0 {
			t.Errorf("it wrote %v", writes)
		}
	})
	t.Run("over a release", func(t *testing.T) {
		b := newBed(t)
		b.both()
		b.want.Values = map[string]any{"replicas": 5}
		if err := b.installer.Rehearse(t.Context(), b.charts, b.want); err != nil {
			t.Error(err)
		}
		if writes := b.api.takeWrites(); len(writes) > 0 {
			t.Errorf("it wrote %v", writes)
		}
	})
	t.Run("the second chart is refused", func(t *testing.T) {
		b := newBed(t)
		b.both()
		b.want.Values = map[string]any{"settings": map[string]any{"clusterName": "other"}}
		err := b.installer.Rehearse(t.Context(), b.charts, b.want)
		if contradiction := (*contradiction.Error)(nil); !errors.As(err, &contradiction) {
			t.Errorf("Rehearse() = %v, want contradiction.Error", err)
		}
		b.want.Values = map[string]any{"replicas": 5}
		b.api.put(deploymentPath, map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "karpenter", "namespace": "kube-system"},
		})
		err = b.installer.Rehearse(t.Context(), b.charts, b.want)
		if foreign := (*survey.ForeignObjectsError)(nil); !errors.As(err, &foreign) || !slices.Contains(foreign.Objects, "Deployment kube-system/karpenter (managed by an unknown client)") {
			t.Errorf("Rehearse() = %v, want survey.ForeignObjectsError", err)
		}
		if writes := b.api.takeWrites(); len(writes) > 0 {
			t.Errorf("it wrote %v", writes)
		}
	})
}

// TestCRDsThatSomebodyBroughtStay: a person's own `helm upgrade` to newer CRDs is
// not taken back, though Helm hands our labels on to their revision.
func TestCRDsThatSomebodyBroughtStay(t *testing.T) {
	b := upgraded(t)
	const secret = secretsPath + "sh.helm.release.v1.karpenter-crd.v2"
	object := b.api.get(secret)
	labels := object["metadata"].(map[string]any)["labels"].(map[string]any)
	labels[revisionLabel], labels[versionLabel] = "1", "1.14.1"
	b.api.put(secret, object)
	b.charts = stored(b.T, "1.14.1", chartstest.CRDs(t, "1.14.1"), chartstest.Controller(t, "1.14.1"))
	result, err := b.crds()
	if diff := cmp.Diff(Result{Step: Keep, Revision: 2, Version: "1.15.0"}, result); err != nil || diff != "" {
		t.Errorf("EnsureCRDs() (-want +got):\n%s%v", diff, err)
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}
