package release

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/kube"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// TestWhatWasMovedIsPutRight: the release is as it should be, and the cluster
// is not.
func TestWhatWasMovedIsPutRight(t *testing.T) {
	crd := crdsPath + "/nodepools.karpenter.sh"
	tests := map[string]struct {
		ensure func(*bed) (Result, error)
		move   func(*fakeAPIServer)
		moved  survey.Drift
		// right is what a field has to be afterwards.
		right func(*fakeAPIServer) any
		want  any
	}{
		"a Deployment was deleted": {
			ensure: (*bed).controller,
			move:   func(f *fakeAPIServer) { delete(f.objects, deploymentPath) },
			moved:  survey.Drift{Object: "Deployment kube-system/karpenter", Deleted: true},
			right:  func(f *fakeAPIServer) any { return f.objects[deploymentPath]["kind"] },
			want:   "Deployment",
		},
		"a Deployment was changed": {
			ensure: (*bed).controller,
			move:   func(f *fakeAPIServer) { field(f.objects[deploymentPath], "spec")["minReadySeconds"] = 7 },
			moved:  survey.Drift{Object: "Deployment kube-system/karpenter", Fields: []string{"spec.minReadySeconds"}},
			right:  func(f *fakeAPIServer) any { return field(f.objects[deploymentPath], "spec")["minReadySeconds"] },
			want:   float64(3),
		},
		"a CRD was deleted": {
			ensure: (*bed).crds,
			move:   func(f *fakeAPIServer) { delete(f.objects, crd) },
			moved:  survey.Drift{Object: "CustomResourceDefinition nodepools.karpenter.sh", Deleted: true},
			right:  func(f *fakeAPIServer) any { return f.objects[crd]["kind"] },
			want:   "CustomResourceDefinition",
		},
		"a CRD was changed": {
			ensure: (*bed).crds,
			move:   func(f *fakeAPIServer) { field(f.objects[crd], "spec")["scope"] = "Namespaced" },
			moved:  survey.Drift{Object: "CustomResourceDefinition nodepools.karpenter.sh", Fields: []string{"spec.scope"}},
			right:  func(f *fakeAPIServer) any { return field(f.objects[crd], "spec")["scope"] },
			want:   "Cluster",
		},
		"a CRD may no longer outlive its release": {
			ensure: (*bed).crds,
			move: func(f *fakeAPIServer) {
				delete(field(f.objects[crd], "metadata", "annotations"), kube.ResourcePolicyAnno)
			},
			moved: survey.Drift{Object: "CustomResourceDefinition nodepools.karpenter.sh", Fields: []string{"metadata.annotations.helm.sh/resource-policy"}},
			right: func(f *fakeAPIServer) any {
				return field(f.objects[crd], "metadata", "annotations")[kube.ResourcePolicyAnno]
			},
			want: kube.KeepPolicy,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.both()
			b.api.mu.Lock()
			test.move(b.api)
			b.api.mu.Unlock()
			result, err := test.ensure(b)
			if diff := cmp.Diff(Result{Step: Repair, Changed: true, Revision: 2, Version: "1.14.1", Drifted: []survey.Drift{test.moved}}, result); err != nil || diff != "" {
				t.Fatalf("ensure (-want +got):\n%s%v", diff, err)
			}
			if got := test.right(b.api); got != test.want {
				t.Errorf("afterwards it has %v, want %v", got, test.want)
			}
			b.api.takeWrites()
			if result, err := test.ensure(b); err != nil || result.Changed {
				t.Errorf("again = %+v, %v; want nothing done", result, err)
			}
		})
	}
}

// TestWhatOthersMayWriteIsLeft: what the API server defaults, what a person or
// an autoscaler adds or scales.
func TestWhatOthersMayWriteIsLeft(t *testing.T) {
	b := newBed(t)
	b.both()
	b.api.mu.Lock()
	field(b.api.objects[deploymentPath], "spec")["replicas"] = 0
	field(b.api.objects[deploymentPath], "spec")["progressDeadlineSeconds"] = 600
	field(b.api.objects[deploymentPath], "metadata")["annotations"].(map[string]any)["kubectl.kubernetes.io/restartedAt"] = "today"
	field(b.api.objects[crdsPath+"/nodepools.karpenter.sh"], "spec")["conversion"] = map[string]any{"strategy": "None"}
	b.api.mu.Unlock()
	for _, ensure := range []func() (Result, error){b.crds, b.controller} {
		if result, err := ensure(); err != nil || result.Step != Keep {
			t.Errorf("ensure = %+v, %v; want nothing done", result, err)
		}
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}

// field walks down a decoded object.
func field(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		object = object[name].(map[string]any)
	}
	return object
}

// TestASilentServerIsNoReasonToWrite.
func TestASilentServerIsNoReasonToWrite(t *testing.T) {
	b := newBed(t)
	b.both()
	b.api.server.Close()
	if _, _, err := b.installer.drifted(task{Chart: charts.Chart{Name: charts.CRDChart}, namespace: "kube-system"}); err == nil || !strings.Contains(err.Error(), "karpenter-crd") {
		t.Errorf("drifted() with the API server away = %v, want an error", err)
	}
}
