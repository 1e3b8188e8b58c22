package evaluate

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

const desiredNamespace = "plumbline-system"

// bed is a fake cluster with one NodeSync, and the memory of Steps.
type bed struct {
	t *testing.T
	// client is the API server, and cached the watch cache.
	client, cached client.Client
	uncached       *readsCounted
	memory         DesiredMemory
	facts          cluster.Memory
	schemas        schema.Cache
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

// newBed returns a bed whose cluster has the NodeSync, the Secret "token" and the objects.
func newBed(t *testing.T, sync *v1alpha1.NodeSync, objects ...client.Object) *bed {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	token := secretOf("token", map[string][]byte{"username": []byte("git"), "password": []byte("s3cret")})
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, sync, token)...).Build()
	return &bed{t: t, client: c, cached: c, uncached: &readsCounted{Reader: c}}
}

// desiredNodeSync returns a NodeSync that plumbline already manages.
func desiredNodeSync(change func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
	sync := &v1alpha1.NodeSync{
		ObjectMeta: metav1.ObjectMeta{Namespace: desiredNamespace, Name: "prod", UID: "11", Generation: 1},
		Spec:       v1alpha1.NodeSyncSpec{Path: "./prod"},
	}
	change(sync)
	return sync
}

func desiredUnchanged(*v1alpha1.NodeSync) {}

// step returns a step of a reconcile of the NodeSync in the cluster.
func (b *bed) step() *DesiredStep {
	b.t.Helper()
	sync := &v1alpha1.NodeSync{}
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: desiredNamespace, Name: "prod"}, sync); err != nil {
		b.t.Fatal(err)
	}
	return &DesiredStep{
		DesiredTools: DesiredTools{Cached: b.cached, Uncached: b.uncached, Schemas: &b.schemas},
		Desired:      &Desired{Karpenter: &render.Karpenter{Management: render.Managed, Version: "1.14.1", Namespace: "kube-system"}},
		Sync:         sync, View: &cluster.View{Cached: b.cached, Uncached: b.uncached, Memory: &b.facts}, Memory: &b.memory,
		Now: time.Unix(1_000_000, 0), Timeout: time.Minute, Retry: time.Minute,
		Secret: func(ctx context.Context, name string) (*corev1.Secret, error) {
			secret := &corev1.Secret{}
			return secret, b.uncached.Get(ctx, client.ObjectKey{Namespace: desiredNamespace, Name: name}, secret)
		},
		HideValues: func([]string) {}, HideCredential: func(string) {},
	}
}
