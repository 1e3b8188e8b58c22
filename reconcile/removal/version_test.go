package removal

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// TestAControllerOfAnotherVersion checks that a controller is named if its image has neither the version in Git nor the
// one in force.
func TestAControllerOfAnotherVersion(t *testing.T) {
	const image = "public.ecr.aws/karpenter/controller"
	changing := &v1alpha1.ChartTarget{Version: "1.14.1"}
	for name, c := range map[string]struct {
		status v1alpha1.KarpenterStatus
		image  string
		want   string
	}{
		"as it should be":            {status: v1alpha1.KarpenterStatus{Version: "1.14.1"}, image: image + ":1.14.1@sha256:1234"},
		"edited by hand":             {status: v1alpha1.KarpenterStatus{Version: "1.14.1"}, image: image + ":1.8.6", want: "deployment/karpenter runs version 1.8.6, but Git has 1.14.1"},
		"a build of its own":         {status: v1alpha1.KarpenterStatus{Version: "1.14.1"}, image: "registry.example/karpenter:v1.14.1-fips"},
		"an image without a version": {status: v1alpha1.KarpenterStatus{Version: "1.14.1"}, image: image + "@sha256:1234"},
		"on its way":                 {status: v1alpha1.KarpenterStatus{Version: "1.8.6", Target: changing}, image: image + ":1.14.1"},
		"not on its way yet":         {status: v1alpha1.KarpenterStatus{Version: "1.8.6", Target: changing}, image: image + ":1.8.6"},
		"neither":                    {status: v1alpha1.KarpenterStatus{Version: "1.8.6", Target: changing}, image: image + ":1.6.3", want: "deployment/karpenter runs version 1.6.3, but Git has 1.14.1"},
		"another tool's":             {image: image + ":1.8.6"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := appsv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", UID: "1"}}
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Image: c.image}}
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(deployment).Build()
			s := living(t).step(general)
			s.Sync.Status.Karpenter, s.View = &c.status, &cluster.View{Uncached: reader, Memory: &cluster.Memory{}}
			if got := s.otherVersion(t.Context(), []appsv1.Deployment{*deployment}); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
