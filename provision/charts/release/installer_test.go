package release

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

const (
	secretsPath    = "/api/v1/namespaces/kube-system/secrets/"
	deploymentPath = "/apis/apps/v1/namespaces/kube-system/deployments/karpenter"
	crdsPath       = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
)

func TestInstallThenNothing(t *testing.T) {
	b := newBed(t)
	b.both()
	state := b.state()
	if state.CRDs.Status != Deployed || state.Controller.Status != Deployed || state.Controller.Mark.Version != "1.14.1" {
		t.Errorf("state = %+v, want both deployed at 1.14.1", state)
	}
	annotations := b.api.get(crdsPath + "/nodepools.karpenter.sh")["metadata"].(map[string]any)["annotations"].(map[string]any)
	if annotations["helm.sh/resource-policy"] != "keep" {
		t.Errorf("the NodePools' CRD is not kept: %v", annotations)
	}
	for _, ensure := range []func() (Result, error){b.crds, b.controller} {
		if result, err := ensure(); err != nil || result.Changed || result.Step != Keep {
			t.Errorf("again = %+v, %v; want nothing done", result, err)
		}
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("nothing had changed, and it wrote %v", writes)
	}
}

func TestOtherValuesMakeAnotherRevision(t *testing.T) {
	b := newBed(t)
	b.both()
	b.want.Values = map[string]any{"replicas": 3}
	result, err := b.controller()
	if diff := cmp.Diff(Result{Step: Upgrade, Changed: true, Revision: 2, Version: "1.14.1"}, result); err != nil || diff != "" {
		t.Fatalf("upgrade (-want +got):\n%s%v", diff, err)
	}
	spec := b.api.get(deploymentPath)["spec"].(map[string]any)
	if spec["replicas"] != float64(3) || spec["clusterName"] != "prod-eu" {
		t.Errorf("the Deployment has %v", spec)
	}
	if result, err := b.crds(); err != nil || result.Changed {
		t.Errorf("the CRDs' release was touched: %+v, %v", result, err)
	}
	b.want.Values = nil
	if result, err := b.controller(); err != nil || result.Revision != 3 {
		t.Errorf("taking the value back = %+v, %v", result, err)
	}
	if spec := b.api.get(deploymentPath)["spec"].(map[string]any); spec["replicas"] != float64(2) {
		t.Errorf("a value that left Git stayed: %v", spec)
	}
}

func TestARevisionThatWasKilledIsUpgradedOver(t *testing.T) {
	for _, status := range []string{"pending-install", "pending-upgrade", "pending-rollback", "uninstalled", "unknown", "failed"} {
		t.Run(status, func(t *testing.T) {
			b := newBed(t)
			b.both()
			b.setStatus("sh.helm.release.v1.karpenter-crd.v1", status)
			// The kill came before the second CRD was created.
			path := crdsPath + "/nodepools.karpenter.sh"
			b.api.mu.Lock()
			delete(b.api.objects, path)
			b.api.mu.Unlock()
			result, err := b.crds()
			if err != nil || result.Revision != 2 {
				t.Fatalf("recover = %+v, %v", result, err)
			}
			if b.api.get(path) == nil {
				t.Error("the CRD that was missing is still missing")
			}
			for _, write := range b.api.takeWrites() {
				if strings.HasPrefix(write, http.MethodDelete) {
					t.Errorf("recovering deleted: %s", write)
				}
			}
			if state := b.state(); state.CRDs.Status != Deployed || state.CRDs.Revision != 2 {
				t.Errorf("state = %+v", state.CRDs)
			}
			if result, err := b.crds(); err != nil || result.Changed {
				t.Errorf("again = %+v, %v; want nothing done", result, err)
			}
		})
	}
}

func TestWhatIsNotOursIsNotTouched(t *testing.T) {
	meta := func(labels, annotations map[string]any) map[string]any {
		return map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "nodepools.karpenter.sh", "labels": labels, "annotations": annotations},
		}
	}
	helms := map[string]any{"app.kubernetes.io/managed-by": "Helm"}
	release := func(name string) map[string]any {
		return map[string]any{"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": "kube-system"}
	}
	terminating := meta(helms, release(charts.CRDChart))
	terminating["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-02T03:04:05Z"
	tests := map[string]struct {
		live map[string]any
		want any
	}{
		"by kubectl":                        {meta(nil, nil), new(*survey.ForeignObjectsError)},
		"another release's":                 {meta(helms, release("karpenter")), new(*survey.ForeignObjectsError)},
		"being deleted":                     {terminating, new(*TerminatingError)},
		"our release's, whose history went": {meta(helms, release(charts.CRDChart)), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.api.put(crdsPath+"/nodepools.karpenter.sh", test.live)
			_, err := b.crds()
			if test.want == nil {
				if err != nil {
					t.Errorf("EnsureCRDs() = %v", err)
				}
				return
			}
			if err == nil || !errors.As(err, test.want) || !strings.Contains(err.Error(), "CustomResourceDefinition nodepools.karpenter.sh") {
				t.Errorf("EnsureCRDs() = %v, want %T naming the CRD", err, test.want)
			}
			if writes := b.api.takeWrites(); len(writes) > 0 {
				t.Errorf("it wrote %v", writes)
			}
		})
	}
}

func TestAForeignReleaseIsNotTouched(t *testing.T) {
	b := newBed(t)
	b.api.put(secretsPath+"sh.helm.release.v1.karpenter.v1", map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
			"name":   "sh.helm.release.v1.karpenter.v1",
			"labels": map[string]any{"owner": "helm", "name": "karpenter", "version": "1", "status": "deployed"},
		},
	})
	_, err := b.controller()
	var foreign *survey.ForeignReleaseError
	if !errors.As(err, &foreign) {
		t.Errorf("EnsureController() = %v, want a survey.ForeignReleaseError", err)
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}

func TestWhatTheServerRefusesIsNotBegun(t *testing.T) {
	tests := map[string]struct {
		code   int
		reason metav1.StatusReason
		want   any
	}{
		"invalid":   {http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, new(*RejectedError)},
		"malformed": {http.StatusBadRequest, metav1.StatusReasonBadRequest, new(*RejectedError)},
		"forbidden": {http.StatusForbidden, metav1.StatusReasonForbidden, new(*ForbiddenError)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.api.refuseWith(func(_, path string, dryRun bool) *metav1.Status {
				if dryRun && strings.Contains(path, "deployments") {
					return refusal(test.code, test.reason, "no such\n field")
				}
				return nil
			})
			_, err := b.controller()
			if err == nil || !errors.As(err, test.want) || !strings.Contains(err.Error(), "Deployment kube-system/karpenter: no such field") {
				t.Errorf("EnsureController() = %v, want %T with the server's words", err, test.want)
			}
			if writes := b.api.takeWrites(); len(writes) > 0 {
				t.Errorf("it wrote %v", writes)
			}
			b.api.refuseWith(nil)
			if _, err := b.controller(); err != nil {
				t.Errorf("once the cause is gone: %v", err)
			}
		})
	}
}

// TestANamespaceThatIsBeingDeleted: the server forbids creating objects in it, and no permission would help.
func TestANamespaceThatIsBeingDeleted(t *testing.T) {
	b := newBed(t)
	b.api.refuseWith(func(_, path string, dryRun bool) *metav1.Status {
		if !dryRun || !strings.Contains(path, "/namespaces/kube-system/") {
			return nil
		}
		status := refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "because it is being terminated")
		status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"}}}
		return status
	})
	_, err := b.controller()
	var terminating *TerminatingError
	if !errors.As(err, &terminating) || !strings.Contains(err.Error(), "Namespace kube-system: being deleted") {
		t.Errorf("EnsureController() = %v, want %T", err, terminating)
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}

func TestAWriteThatFailsIsTriedAgain(t *testing.T) {
	b := newBed(t)
	b.api.refuseWith(func(_, path string, dryRun bool) *metav1.Status {
		if !dryRun && strings.Contains(path, "deployments") {
			return refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd is away")
		}
		return nil
	})
	if _, err := b.controller(); err == nil || !strings.Contains(err.Error(), "etcd is away") {
		t.Fatalf("EnsureController() = %v, want the server's error", err)
	}
	if state := b.state(); state.Controller.Status != Failed {
		t.Errorf("state = %+v, want failed", state.Controller)
	}
	b.api.refuseWith(nil)
	result, err := b.controller()
	if diff := cmp.Diff(Result{Step: Upgrade, Changed: true, Revision: 2, Version: "1.14.1"}, result); err != nil || diff != "" {
		t.Errorf("once the cause is gone (-want +got):\n%s%v", diff, err)
	}
}

func TestWhoDoesNotLeadWritesNothing(t *testing.T) {
	b := newBed(t)
	lost := errors.New("the lease is another's")
	installer, err := NewInstaller(InstallerOptions{Config: b.api.config(), StillLeader: func(context.Context) error { return lost }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := installer.EnsureCRDs(t.Context(), b.charts, b.want); !errors.Is(err, lost) {
		t.Errorf("EnsureCRDs() = %v, want %v", err, lost)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := b.installer.EnsureCRDs(ended, b.charts, b.want); !errors.Is(err, context.Canceled) {
		t.Errorf("EnsureCRDs in an ended context = %v", err)
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}

func TestAServerThatIsAwayIsNoReason(t *testing.T) {
	b := newBed(t)
	b.api.server.Close()
	began := time.Now()
	_, err := b.crds()
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("EnsureCRDs() = %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestChartsWithoutADigestAreNotInstalled(t *testing.T) {
	b := newBed(t)
	b.charts.CRDDigest = ""
	if _, err := b.crds(); err == nil || !strings.Contains(err.Error(), "no digest") {
		t.Errorf("EnsureCRDs() = %v", err)
	}
}

func TestNextStep(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Mark{Version: "1.14.1", Digest: "d", Values: "v"}
	tests := map[string]struct {
		release Release
		step    Step
		err     any
	}{
		"nothing there":            {Release{Status: Absent}, Install, nil},
		"as it should be":          {Release{Status: Deployed, Mark: want}, Keep, nil},
		"other values":             {Release{Status: Deployed, Mark: Mark{"1.14.1", "d", "w"}}, Upgrade, nil},
		"other chart":              {Release{Status: Deployed, Mark: Mark{"1.14.1", "e", "v"}}, Upgrade, nil},
		"the same, made by hand":   {Release{Status: Deployed, Mark: want, Edited: true}, Upgrade, nil},
		"failed":                   {Release{Status: Failed, Mark: want}, Upgrade, nil},
		"killed at it":             {Release{Status: Pending, Mark: want, Since: now}, Recover, nil},
		"somebody is at it":        {Release{Status: Pending, Edited: true, Since: now.Add(-time.Minute)}, "", new(*BusyError)},
		"somebody was killed at":   {Release{Status: Pending, Edited: true, Since: now.Add(-time.Hour)}, Recover, nil},
		"newer CRDs stay":          {Release{Name: charts.CRDChart, Status: Deployed, Mark: Mark{"1.15.0_b.1", "e", "v"}}, Keep, nil},
		"newer CRDs by hand stay":  {Release{Name: charts.CRDChart, Status: Deployed, Edited: true, Mark: Mark{"1.15.0", "d", "v"}}, Keep, nil},
		"older CRDs do not":        {Release{Name: charts.CRDChart, Status: Deployed, Mark: Mark{"1.9.0", "e", "v"}}, Upgrade, nil},
		"newer, but not CRDs":      {Release{Name: charts.ControllerChart, Status: Deployed, Mark: Mark{"1.15.0", "e", "v"}}, Upgrade, nil},
		"somebody else's":          {Release{Status: Deployed, Foreign: true}, "", new(*survey.ForeignReleaseError)},
		"somebody else's, pending": {Release{Status: Pending, Foreign: true}, "", new(*survey.ForeignReleaseError)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			step, err := nextStep(test.release, want, false, now)
			if step != test.step {
				t.Errorf("Decide() = %q, want %q", step, test.step)
			}
			if (test.err == nil) != (err == nil) || (err != nil && !errors.As(err, test.err)) {
				t.Errorf("Decide() error = %v, want %T", err, test.err)
			}
		})
	}
}

func TestNextStepToAdopt(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Mark{Version: "1.14.1", Digest: "d", Values: "v"}
	theirs := func(name string, status Status, version string, age time.Duration) Release {
		return Release{Name: name, Status: status, Foreign: true, Edited: true, Mark: Mark{Version: version}, Since: now.Add(-age)}
	}
	tests := map[string]struct {
		release Release
		step    Step
		err     any
	}{
		"of the same version":        {theirs(charts.ControllerChart, Deployed, "1.14.1", 0), Adopt, nil},
		"older":                      {theirs(charts.CRDChart, Deployed, "1.8.6", 0), Adopt, nil},
		"newer":                      {theirs(charts.ControllerChart, Deployed, "1.15.0", 0), Adopt, nil},
		"newer CRDs stay":            {theirs(charts.CRDChart, Deployed, "1.15.0", 0), Keep, nil},
		"newer CRDs that failed":     {theirs(charts.CRDChart, Failed, "1.15.0", 0), Keep, nil},
		"failed":                     {theirs(charts.ControllerChart, Failed, "1.8.6", 0), Adopt, nil},
		"they are at it":             {theirs(charts.ControllerChart, Pending, "1.8.6", time.Minute), "", new(*BusyError)},
		"they were killed at it":     {theirs(charts.ControllerChart, Pending, "1.8.6", time.Hour), Recover, nil},
		"nothing there":              {Release{Status: Absent}, Install, nil},
		"ours, as it should be":      {Release{Status: Deployed, Mark: want}, Keep, nil},
		"ours, after somebody's own": {Release{Status: Deployed, Mark: want, Edited: true}, Upgrade, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			step, err := nextStep(test.release, want, true, now)
			if step != test.step {
				t.Errorf("Decide() = %q, want %q", step, test.step)
			}
			if (test.err == nil) != (err == nil) || (err != nil && !errors.As(err, test.err)) {
				t.Errorf("Decide() error = %v, want %T", err, test.err)
			}
		})
	}
}
