package cluster_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

// TestEachFactIsReadOnce in a reconcile, unless that has changed the charts.
func TestEachFactIsReadOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	reads := 0
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, object, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			reads++
			return c.List(ctx, list, opts...)
		},
	})
	for _, name := range cluster.CRDNames() {
		builder.WithObjects(installtest.Served(name))
	}
	builder.WithObjects(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", Labels: cluster.ControllerLabels()}})
	c := builder.Build()
	view := &cluster.View{Cached: c, Uncached: c, Memory: &cluster.Memory{}}
	look := func(what string, want int) {
		t.Helper()
		reads = 0
		established, err := view.Established(t.Context())
		if err != nil || !established.Ready {
			t.Fatalf("%s: established %+v, %v", what, established, err)
		}
		deployments, err := view.Controllers(t.Context(), "kube-system")
		if err != nil || len(deployments) != 1 {
			t.Fatalf("%s: %d controllers, %v", what, len(deployments), err)
		}
		if reads != want {
			t.Errorf("%s: %d reads, want %d", what, reads, want)
		}
	}
	all := len(cluster.CRDNames()) + 1
	look("at first", all)
	look("again", 0)
	view.Changed()
	look("after a change of the charts", all)
}
