package upgrade

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// bed is a cluster of fakes, with the Memory of its Steps.
type bed struct {
	client   client.Client
	uncached *readsCounted
	helm     *installtest.Helm
	memory   Memory
	facts    cluster.Memory
	schemas  schema.Cache
	now      time.Time
}

// readsCounted counts the objects that are read.
type readsCounted struct {
	client.Reader
	reads int
}

func (r *readsCounted) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	r.reads++
	return r.Reader.Get(ctx, key, object, opts...)
}

func newBed(t *testing.T, objects ...client.Object) *bed {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme, rbacv1.AddToScheme, appsv1.AddToScheme, apiextensionsv1.AddToScheme, cluster.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &bed{client: c, uncached: &readsCounted{Reader: c}, helm: &installtest.Helm{Asked: map[string]int{}, Known: installtest.Deployed}, now: time.Unix(1_000_000, 0)}
}

// retry is how long a refused change is not retried.
const retry = time.Minute

// step returns the Step of a reconcile in which Git contains the charts of 1.14.1.
func (b *bed) step() *Step {
	return &Step{
		Tools: Tools{Client: b.client, Helm: b.helm, Schemas: &b.schemas},
		Wanted: Wanted{
			Karpenter: &render.Karpenter{Management: render.Managed, Version: "1.14.1", Namespace: "kube-system"},
			Charts:    &charts.Charts{Version: "1.14.1", CRDDigest: "sha256:c", Digest: "sha256:d"},
			Set:       &render.Set{},
		},
		Sync: &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Karpenter: &v1alpha1.KarpenterStatus{Namespace: "kube-system"}}},
		Live: plan.Live{Served: true},
		View: &cluster.View{Cached: b.client, Uncached: b.uncached, Memory: &b.facts}, Memory: &b.memory,
		Now: b.now, Timeout: time.Minute, Retry: retry,
		Confirm: func(context.Context) error { return nil }, Hide: func(message string) string { return message },
	}
}
