package charts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestWhatWasMovedIsPutRight: the release is as it should be, and the cluster
// is not.
func TestWhatWasMovedIsPutRight(t *testing.T) {
	crd := crdsPath + "/nodepools.karpenter.sh"
	tests := map[string]struct {
		ensure func(*bed) (Result, error)
		move   func(*fakeAPIServer)
		moved  Move
		// right is what a field has to be afterwards.
		right func(*fakeAPIServer) any
		want  any
	}{
		"a Deployment was deleted": {
			ensure: (*bed).controller,
			move:   func(f *fakeAPIServer) { delete(f.objects, deploymentPath) },
			moved:  Move{Object: "Deployment kube-system/karpenter", Deleted: true},
			right:  func(f *fakeAPIServer) any { return f.objects[deploymentPath]["kind"] },
			want:   "Deployment",
		},
		"a Deployment was changed": {
			ensure: (*bed).controller,
			move:   func(f *fakeAPIServer) { field(f.objects[deploymentPath], "spec")["minReadySeconds"] = 7 },
			moved:  Move{Object: "Deployment kube-system/karpenter", Fields: []string{"spec.minReadySeconds"}},
			right:  func(f *fakeAPIServer) any { return field(f.objects[deploymentPath], "spec")["minReadySeconds"] },
			want:   float64(3),
		},
		"a CRD was deleted": {
			ensure: (*bed).crds,
			move:   func(f *fakeAPIServer) { delete(f.objects, crd) },
			moved:  Move{Object: "CustomResourceDefinition nodepools.karpenter.sh", Deleted: true},
			right:  func(f *fakeAPIServer) any { return f.objects[crd]["kind"] },
			want:   "CustomResourceDefinition",
		},
		"a CRD was changed": {
			ensure: (*bed).crds,
			move:   func(f *fakeAPIServer) { field(f.objects[crd], "spec")["scope"] = "Namespaced" },
			moved:  Move{Object: "CustomResourceDefinition nodepools.karpenter.sh", Fields: []string{"spec.scope"}},
			right:  func(f *fakeAPIServer) any { return field(f.objects[crd], "spec")["scope"] },
			want:   "Cluster",
		},
		"a CRD may no longer outlive its release": {
			ensure: (*bed).crds,
			move:   func(f *fakeAPIServer) { delete(field(f.objects[crd], "metadata", "annotations"), keepAnnotation) },
			moved:  Move{Object: "CustomResourceDefinition nodepools.karpenter.sh", Fields: []string{"metadata.annotations.helm.sh/resource-policy"}},
			right:  func(f *fakeAPIServer) any { return field(f.objects[crd], "metadata", "annotations")[keepAnnotation] },
			want:   keepPolicy,
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
			if diff := cmp.Diff(Result{Step: Repair, Changed: true, Revision: 2, Version: "1.14.1", Moved: []Move{test.moved}}, result); err != nil || diff != "" {
				t.Fatalf("ensure (-want +got):\n%s%v", diff, err)
			}
			if got := test.right(b.api); got != test.want {
				t.Errorf("afterwards it has %v, want %v", got, test.want)
			}
			b.api.took()
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
	if writes := b.api.took(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}

// TestWhatIsTheSame: a quantity that is written otherwise, a status.
func TestWhatIsTheSame(t *testing.T) {
	deployment := func(memory string, replicas int32) runtime.Object {
		return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
			Replicas: new(replicas),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "controller", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}},
			}}}},
		}}
	}
	crd := func(versions ...string) runtime.Object {
		made := &apiextensionsv1.CustomResourceDefinition{}
		for _, name := range versions {
			made.Spec.Versions = append(made.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: name})
		}
		return made
	}
	role := func(verbs ...string) runtime.Object {
		return &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{Verbs: verbs}}}
	}
	tests := map[string]struct {
		wanted, live runtime.Object
		want         string
	}{
		"written otherwise": {deployment("1024Mi", 2), deployment("1Gi", 2), ""},
		"another":           {deployment("1024Mi", 2), deployment("2Gi", 2), `.spec.template.spec.containers[name="controller"].resources.limits.memory`},
		"a status": {
			&policyv1.PodDisruptionBudget{},
			&policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(1, 0)},
				Status:     policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, ExpectedPods: 2},
			},
			"",
		},
		"a list has more":              {crd("v1"), crd("v1", "v2"), ""},
		"a list has less":              {crd("v1", "v2"), crd("v1"), `.spec.versions[name="v2"]`},
		"a list without names is less": {role("get", "list"), role("get"), ".rules"},
		"a list without names is more": {role("get"), role("get", "list"), ".rules"},
		"a list of another order":      {role("get", "list"), role("list", "get"), ".rules"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fields, err := lacking(test.wanted, test.live)
			got := ""
			for _, path := range fields {
				got += path.String()
			}
			if err != nil || got != test.want {
				t.Errorf("lacking() = %q, %v, want %q", got, err, test.want)
			}
		})
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
	if _, _, err := b.installer.moved(task{name: CRDChart, namespace: "kube-system"}); err == nil || !strings.Contains(err.Error(), "karpenter-crd") {
		t.Errorf("moved() with the API server away = %v, want an error", err)
	}
}
