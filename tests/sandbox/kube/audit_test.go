package kube_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
)

// writes checks that the audit log shows who wrote what, and whether it was allowed.
func writes(t *testing.T, c *kube.ControlPlane) {
	labels := map[string]string{"app": "audited"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "audited"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
			},
		},
	}
	deployments := c.Client.AppsV1().Deployments("default")
	if _, err := deployments.Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := deployments.Create(t.Context(), d, metav1.CreateOptions{}); err == nil {
		t.Fatal("the same name was created twice")
	}
	want := []string{"create deployments.apps/audited: 201", "create deployments.apps/audited: 409"}
	var got []string
	eventually(t, "both writes in the audit", func(context.Context) bool {
		all, err := c.Writes()
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, w := range all {
			if w.User == "admin" && w.Resource == "deployments" {
				got = append(got, w.String())
			}
		}
		return len(got) >= len(want)
	})
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes in the audit (-want +got):\n%s", diff)
	}
}
