package survey

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

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
