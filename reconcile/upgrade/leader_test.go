package upgrade

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestLeads: a replica that is ready does not lead yet.
func TestLeads(t *testing.T) {
	spec := func(image string) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar", Image: "x"}, {Name: "controller", Image: image}}}
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter"}}
	deployment.Spec.Template.Spec = spec("controller:1.14.1")
	pod := func(image string) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-a"}, Spec: spec(image)}
	}
	lease := func(holder string) client.Object {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-leader-election"}}
		l.Spec.HolderIdentity = &holder
		return l
	}
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"the new one leads":    {objects: []client.Object{lease("karpenter-a_1f"), pod("controller:1.14.1")}},
		"no lease":             {want: "no replica of deployment/karpenter leads yet"},
		"given up":             {objects: []client.Object{lease("")}, want: "leads yet"},
		"its holder is gone":   {objects: []client.Object{lease("karpenter-b_1f"), pod("controller:1.14.1")}, want: "held by karpenter-b, which is gone"},
		"the one before leads": {objects: []client.Object{lease("karpenter-a_1f"), pod("controller:1.8.6")}, want: "pod/karpenter-a still leads, with image controller:1.8.6"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithObjects(append(c.objects, deployment.DeepCopy())...).Build()
			got, err := Leads(t.Context(), reader, deployment)
			if err != nil || got.Ready != (c.want == "") || !strings.Contains(got.Message, c.want) {
				t.Errorf("Leads() = %+v, %v, want %q", got, err, c.want)
			}
		})
	}
}
