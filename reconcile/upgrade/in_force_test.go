package upgrade

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// storing is a cluster with three NodePools, some of which may be stored as v1beta1, that counts how often each was
// written.
type storing struct {
	client.WithWatch
	crd     *apiextensionsv1.CustomResourceDefinition
	written map[string]int
	// refusal is the API server's response to every request for objects.
	refusal error
}

func newStoring(t *testing.T) *storing {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "nodepools.karpenter.sh"}}
	crd.Spec.Group, crd.Spec.Names.Kind = "karpenter.sh", "NodePool"
	crd.Status.StoredVersions = []string{"v1beta1", "v1"}
	objects := []client.Object{crd}
	for i := range 3 {
		pool := &unstructured.Unstructured{}
		pool.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"})
		pool.SetName(fmt.Sprintf("pool-%d", i))
		objects = append(objects, pool)
	}
	s := &storing{written: map[string]int{}}
	s.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(crd).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if s.refusal != nil {
				return s.refusal
			}
			return c.List(ctx, list, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			s.written[object.GetName()]++
			return c.Update(ctx, object, options...)
		},
	}).Build()
	s.crd = &apiextensionsv1.CustomResourceDefinition{}
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(crd), s.crd); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *storing) rewrite(ctx context.Context, lease error) (int, error) {
	return Rewrite(ctx, s, s, karpenter.Migration{CRD: s.crd.Name, Drop: []string{"v1beta1"}, Storage: "v1"}, func(context.Context) error { return lease })
}

func (s *storing) stored(t *testing.T) []string {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(s.crd), crd); err != nil {
		t.Fatal(err)
	}
	return crd.Status.StoredVersions
}

func TestRewrite(t *testing.T) {
	s := newStoring(t)
	n, err := s.rewrite(t.Context(), nil)
	if err != nil || n != 3 {
		t.Fatalf("Rewrite() = %d, %v", n, err)
	}
	if diff := cmp.Diff(map[string]int{"pool-0": 1, "pool-1": 1, "pool-2": 1}, s.written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"v1"}, s.stored(t)); diff != "" {
		t.Errorf("storedVersions (-want +got):\n%s", diff)
	}
}

// TestRewriteWithoutTheLease checks that nothing is written after the lease was lost.
func TestRewriteWithoutTheLease(t *testing.T) {
	s := newStoring(t)
	lost := errors.New("the lease is somebody else's")
	if _, err := s.rewrite(t.Context(), lost); !errors.Is(err, lost) {
		t.Errorf("Rewrite() = %v, want the lease's error", err)
	}
	if len(s.written) > 0 || len(s.stored(t)) != 2 {
		t.Errorf("it wrote %v, storedVersions are %v", s.written, s.stored(t))
	}
}

// TestRewriteThatIsRefused checks that a version stays on the list until all objects are rewritten.
func TestRewriteThatIsRefused(t *testing.T) {
	s := newStoring(t)
	s.refusal = errors.New("nobody converts")
	if _, err := s.rewrite(t.Context(), nil); !errors.Is(err, s.refusal) {
		t.Errorf("Rewrite() = %v", err)
	}
	if len(s.stored(t)) != 2 {
		t.Errorf("storedVersions are %v", s.stored(t))
	}
}
