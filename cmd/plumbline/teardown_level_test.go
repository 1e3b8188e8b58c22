package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// served has a CRD of Karpenter's be in the cluster.
func (s *apiServer) crd(plural, kind, group string) {
	s.objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+plural+"."+group] = map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + group, "uid": plural},
		"spec": map[string]any{"group": group, "names": map[string]any{"plural": plural, "kind": kind}, "versions": []any{map[string]any{"name": "v1", "served": true}}},
	}
}

// TestTeardownKeepsKarpenter where another needs it, or has installed it: nothing is begun then.
func TestTeardownKeepsKarpenter(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *apiServer, sync *v1alpha1.NodeSync)
		says   string
	}{
		"another pool": {func(*apiServer, *v1alpha1.NodeSync) {}, "objects of its kinds are left in the cluster: NodePool/other (managed by an unknown client); delete them first"},
		"a pool of another NodeSync": {func(s *apiServer, sync *v1alpha1.NodeSync) {
			delete(s.objects, "/apis/karpenter.sh/v1/nodepools/other")
			other := sync.DeepCopy()
			other.Name, other.UID = "stage", "2"
			s.objects[syncPath+"stage"] = other
		}, "karpenter stays as long as another NodeSync needs it: fleet/stage"},
		"it is External": {func(s *apiServer, sync *v1alpha1.NodeSync) {
			delete(s.objects, "/apis/karpenter.sh/v1/nodepools/other")
			sync.Status.Karpenter.Management = "External"
		}, "plumbline has not installed Karpenter: deployment kube-system/karpenter is helm release infra/karpenter (the NodeSync's Git says management: External): uninstall it there"},
		"Helm knows none": {func(s *apiServer, _ *v1alpha1.NodeSync) {
			delete(s.objects, "/apis/karpenter.sh/v1/nodepools/other")
		}, "plumbline has not installed Karpenter: deployment kube-system/karpenter is helm release infra/karpenter: uninstall it there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig, sync := fleetToLeave(t)
			s.crd("nodepools", "NodePool", "karpenter.sh")
			s.crd("nodeclaims", "NodeClaim", "karpenter.sh")
			metadata := s.objects[controllerPath].(map[string]any)["metadata"].(map[string]any)
			metadata["labels"].(map[string]any)["app.kubernetes.io/managed-by"] = "Helm"
			metadata["annotations"] = map[string]any{"meta.helm.sh/release-name": "karpenter", "meta.helm.sh/release-namespace": "infra"}
			c.change(s, sync)
			done := endsAtOnce(s)
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
			got := teardownWith(t.Context(), t, aws, "prod", "--yes", "--down-to", "crds", "--kubeconfig", kubeconfig)
			if got.code != exitFailed || len(*done) > 0 || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, did %v, says %s", got.code, *done, got.err)
			}
		})
	}
}

// TestTeardownWithoutKarpenter: where Karpenter was never installed there is nothing to uninstall, and it is said
// which levels there are.
func TestTeardownWithoutKarpenter(t *testing.T) {
	s, kubeconfig, _ := fleetToLeave(t)
	delete(s.objects, controllerPath)
	delete(s.objects, leavingPath)
	aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
	args := []string{"prod", "--cluster", "demo", "--region", "eu-west-1", "--account", "111122223333", "--kubeconfig", kubeconfig, "--down-to"}
	if got := teardownWith(t.Context(), t, aws, append(args, "crds")...); got.code != exitDone {
		t.Errorf("code %d: %s", got.code, got.err)
	}
	if got := teardownWith(t.Context(), t, aws, append(args, "everything")...); got.code != exitFailed || !strings.Contains(got.err, `"everything" is none of nodes, definitions, controller, crds`) {
		t.Errorf("code %d: %s", got.code, got.err)
	}
}

// TestTeardownBringsTheControllerBack: scaled to 0 it is scaled up, and gone it is installed by the daemon, before
// anything is deleted.
func TestTeardownBringsTheControllerBack(t *testing.T) {
	for name, c := range map[string]struct {
		gone    bool
		change  func(sync *v1alpha1.NodeSync)
		code    int
		patches string
		says    string
	}{
		"scaled to 0":               {false, func(*v1alpha1.NodeSync) {}, exitDone, controllerPath, "(deployment kube-system/karpenter is scaled to 0), and nothing else ends the nodes: it is scaled to 1 first"},
		"gone":                      {true, func(*v1alpha1.NodeSync) {}, exitDone, leavingPath, "and nothing else ends the nodes: the daemon installs Karpenter 1.14.1 again first"},
		"gone, and suspended":       {true, func(sync *v1alpha1.NodeSync) { sync.Spec.Suspend = true }, exitFailed, "", "run `plumbline resume prod -n fleet`"},
		"gone, and External":        {true, func(sync *v1alpha1.NodeSync) { sync.Status.Karpenter.Management = "External" }, exitFailed, "", "bring it up with the tool that installs it; nothing was changed"},
		"gone, and deleted already": {true, begunToLeave, exitStalled, "", "stop the daemon (kubectl scale deployment plumbline -n fleet --replicas=0) and run this again, which installs it with its values from Git; or bring it up by hand"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig, sync := fleetToLeave(t)
			if s.objects[controllerPath] = karpenterWith(0); c.gone {
				delete(s.objects, controllerPath)
			}
			c.change(sync)
			done := endsAtOnce(s)
			noted := s.patched
			s.patched = func(s *apiServer, path string) {
				noted(s, path)
				s.objects[controllerPath] = karpenterWith(1)
			}
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
			got := teardownWith(t.Context(), t, aws, "prod", "--yes", "--timeout", "1s", "--kubeconfig", kubeconfig)
			if got.code != c.code || !strings.Contains(got.out+got.err, c.says) {
				t.Errorf("code %d, prints %s, says %s", got.code, got.out, got.err)
			}
			if first := append(*done, "")[0]; c.patches != "" && first != "patch "+c.patches || c.patches == "" && first != "" {
				t.Errorf("did %v, want a patch of %q first", *done, c.patches)
			}
		})
	}
}

// TestTeardownInstallsTheController where it is gone, and no daemon leads: by the daemon's passes, before anything is deleted, whether the
// NodeSync is suspended, or being deleted, or neither.
func TestTeardownInstallsTheController(t *testing.T) {
	for name, c := range map[string]struct {
		change func(sync *v1alpha1.NodeSync)
		fails  bool
		code   int
		first  string
		says   string
	}{
		"gone":                         {func(*v1alpha1.NodeSync) {}, false, exitDone, "patch " + leavingPath, "Karpenter's controller runs"},
		"gone, and suspended":          {func(sync *v1alpha1.NodeSync) { sync.Spec.Suspend = true }, false, exitDone, "patch " + leavingPath, "Karpenter's controller runs"},
		"gone, and External":           {func(sync *v1alpha1.NodeSync) { sync.Status.Karpenter.Management = "External" }, true, exitFailed, "", "bring it up with the tool that installs it; nothing was changed"},
		"gone, and it does not start":  {func(*v1alpha1.NodeSync) {}, true, exitStalled, "", "waiting for Karpenter's controller: no Deployment of it is in namespace kube-system"},
		"gone, and begun, and removed": {begunToLeave, false, exitDone, "", "Karpenter's controller runs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig, sync := fleetToLeave(t)
			s.objects[leasePath] = leaseOf("", time.Hour)
			delete(s.objects, controllerPath)
			c.change(sync)
			done := endsAtOnce(s)
			in := &stoodIn{}
			in.begun = func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				if !c.fails {
					s.objects[controllerPath] = karpenterWith(1)
				}
			}
			in.goesOn = func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				if sync.DeletionTimestamp != nil {
					delete(s.objects, leavingPath)
				}
			}
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
			got := teardownBy(t.Context(), t, in.start, aws, "prod", "--yes", "--timeout", "1s", "--kubeconfig", kubeconfig)
			if got.code != c.code || !strings.Contains(got.out+got.err, c.says) {
				t.Errorf("code %d, prints %s, says %s", got.code, got.out, got.err)
			}
			if first := append(*done, "")[0]; first != c.first {
				t.Errorf("did %v, want %q first", *done, c.first)
			}
			if begun := c.code != exitFailed; begun != slices.Equal(in.installs, []bool{true}) || begun != in.stopped {
				t.Errorf("stood in by %v, stopped %v", in.installs, in.stopped)
			}
		})
	}
}

// begunToLeave has a NodeSync be deleted already.
func begunToLeave(sync *v1alpha1.NodeSync) {
	sync.DeletionTimestamp, sync.Spec.OnDelete = &metav1.Time{Time: time.Unix(1, 0)}, v1alpha1.OnDeleteDrain
}

// TestTeardownSaysWhyTheControllerDoesNotStart, as its log tells it, and nothing is deleted meanwhile.
func TestTeardownSaysWhyTheControllerDoesNotStart(t *testing.T) {
	s, kubeconfig, _ := fleetToLeave(t)
	s.objects[controllerPath] = karpenterWith(0)
	done := endsAtOnce(s)
	noted := s.patched
	s.patched = func(s *apiServer, path string) {
		noted(s, path)
		down := karpenterWith(1)
		labels := map[string]any{"app.kubernetes.io/name": "karpenter"}
		down["status"], down["spec"] = map[string]any{}, map[string]any{"replicas": 1, "selector": map[string]any{"matchLabels": labels}}
		s.objects[controllerPath] = down
		s.objects["/api/v1/namespaces/kube-system/pods/karpenter-a"] = map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "karpenter-a", "namespace": "kube-system", "labels": labels},
			"status": map[string]any{"containerStatuses": []any{map[string]any{"name": "controller", "restartCount": 3}}},
		}
		s.texts = map[string]string{"/api/v1/namespaces/kube-system/pods/karpenter-a/log": `{"message":"ec2 api connectivity check failed","error":"AccessDenied: not authorized to perform sts:AssumeRoleWithWebIdentity"}`}
	}
	aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
	got := teardownWith(t.Context(), t, aws, "prod", "--yes", "--timeout", "1s", "--kubeconfig", kubeconfig)
	if got.code != exitStalled || !slices.Equal(*done, []string{"patch " + controllerPath}) || !strings.Contains(got.err, "AccessDenied: not authorized to perform sts:AssumeRoleWithWebIdentity") {
		t.Errorf("code %d, did %q, says %s", got.code, *done, got.err)
	}
}
