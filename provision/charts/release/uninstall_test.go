package release

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// uninstall uninstalls a release, and returns what was written.
func (b *bed) uninstall(name string) ([]string, error) {
	b.Helper()
	err := b.installer.Uninstall(b.Context(), b.want.Namespace, name)
	return b.api.takeWrites(), err
}

// TestUninstall: the main chart's objects are deleted, the CRDs stay, and it can be repeated.
func TestUninstall(t *testing.T) {
	b := newBed(t)
	b.both()
	crds := b.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepools.karpenter.sh")
	for _, name := range []string{charts.ControllerChart, charts.CRDChart, charts.ControllerChart} {
		if _, err := b.uninstall(name); err != nil {
			t.Fatal(err)
		}
	}
	if state := b.state(); state.Controller.Status != Absent || state.CRDs.Status != Absent {
		t.Errorf("state %+v", state)
	}
	if b.api.get("/apis/apps/v1/namespaces/kube-system/deployments/karpenter") != nil {
		t.Error("the Deployment is still there")
	}
	after := b.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepools.karpenter.sh")
	if diff := cmp.Diff(crds, after); diff != "" || crds == nil {
		t.Errorf("the CRD has changed: %s", diff)
	}
}

// TestUninstallDeletesNothing: it deletes nothing if it could not delete all of it, or if the release is not
// plumbline's.
func TestUninstallDeletesNothing(t *testing.T) {
	refused := func(method, path string, dryRun bool) *metav1.Status {
		if method == http.MethodDelete && strings.HasSuffix(path, "/deployments/karpenter") {
			return refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "Deployment/karpenter belongs to Karpenter")
		}
		return nil
	}
	for name, c := range map[string]struct {
		prepare func(*bed)
		is      func(error) bool
	}{
		"the API server refuses": {func(b *bed) { b.api.refuseWith(refused) }, func(err error) bool {
			return strings.Contains(err.Error(), "delete Deployment karpenter of Helm release karpenter: ") && strings.Contains(err.Error(), "belongs to Karpenter")
		}},
		"its record names another's object": {func(b *bed) { b.forge("sh.helm.release.v1.karpenter.v1", precious) }, func(err error) bool {
			return strings.Contains(err.Error(), "Helm release karpenter would delete ConfigMap default/precious with it, which is no object of Karpenter's charts: nothing was deleted")
		}},
		"its record names Karpenter's name elsewhere": {func(b *bed) {
			b.forge("sh.helm.release.v1.karpenter.v1", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: karpenter, namespace: default}}")
		}, func(err error) bool {
			return strings.Contains(err.Error(), "Deployment default/karpenter with it, which is in namespace default")
		}},
		"another tool's": {func(b *bed) {
			record := b.api.get(secretsPath + "sh.helm.release.v1.karpenter.v1")
			labels := record["metadata"].(map[string]any)["labels"].(map[string]any)
			delete(labels, digestLabel)
		}, func(err error) bool { return errors.As(err, new(*survey.ForeignReleaseError)) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.both()
			c.prepare(b)
			writes, err := b.uninstall(charts.ControllerChart)
			if err == nil || !c.is(err) || len(writes) > 0 {
				t.Errorf("Uninstall() = %v, wrote %v", err, writes)
			}
		})
	}
}

// precious is an object of another owner, and preciousPath its path.
const (
	precious     = "{apiVersion: v1, kind: ConfigMap, metadata: {name: precious, namespace: default}}"
	preciousPath = "/api/v1/namespaces/default/configmaps/precious"
)

// putPrecious creates that object.
func (b *bed) putPrecious() {
	b.api.put(preciousPath, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "precious", "namespace": "default"}})
}

// TestUpgradeDeletesNothingForged: the record of the previous revision contains an object of another owner, which Helm
// would delete because the chart does not contain it.
func TestUpgradeDeletesNothingForged(t *testing.T) {
	b := newBed(t)
	b.both()
	b.putPrecious()
	b.forge("sh.helm.release.v1.karpenter.v1", precious)
	b.want.Values = map[string]any{"replicas": 3}
	if result, err := b.controller(); err != nil || !result.Changed {
		t.Fatalf("EnsureController() = %+v, %v", result, err)
	}
	if b.api.get(preciousPath) == nil {
		t.Error("an object that is not of the chart was deleted")
	}
}

// TestRepairReadsNothingForged: only the chart's objects are compared with the cluster, whatever else the record
// contains.
func TestRepairReadsNothingForged(t *testing.T) {
	b := newBed(t)
	b.both()
	b.forge("sh.helm.release.v1.karpenter.v1", precious)
	b.api.refuseWith(func(_, path string, _ bool) *metav1.Status {
		if path == preciousPath {
			return refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "it is none of yours")
		}
		return nil
	})
	if result, err := b.controller(); err != nil || result.Changed {
		t.Errorf("EnsureController() = %+v, %v", result, err)
	}
}

// TestUninstallsWhatWasChecked: a revision that is written after the check is not the one that is uninstalled.
func TestUninstallsWhatWasChecked(t *testing.T) {
	b := newBed(t)
	b.both()
	installer, err := NewInstaller(InstallerOptions{Config: b.api.config(), StillLeader: func(context.Context) error {
		b.forge("sh.helm.release.v1.karpenter.v1", precious)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.installer = installer
	b.putPrecious()
	if _, err := b.uninstall(charts.ControllerChart); err != nil {
		t.Fatal(err)
	}
	if b.api.get(preciousPath) == nil {
		t.Error("an object that is not of the chart was deleted")
	}
}

// TestUninstallGoesOn: it continues after an interruption between the objects and Helm's record.
func TestUninstallGoesOn(t *testing.T) {
	b := newBed(t)
	b.both()
	b.api.refuseWith(func(method, path string, dryRun bool) *metav1.Status {
		if method == http.MethodDelete && !dryRun && strings.HasPrefix(path, secretsPath) {
			return refusal(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the API server has gone away")
		}
		return nil
	})
	if _, err := b.uninstall(charts.ControllerChart); err == nil || !strings.Contains(err.Error(), "gone away") {
		t.Fatalf("Uninstall() = %v", err)
	}
	if state := b.state(); state.Controller.Status == Absent {
		t.Error("the release counts as gone, and its record is left")
	}
	b.api.refuseWith(nil)
	if _, err := b.uninstall(charts.ControllerChart); err != nil {
		t.Fatal(err)
	}
	if state := b.state(); state.Controller.Status != Absent {
		t.Errorf("state %+v", state.Controller)
	}
}
