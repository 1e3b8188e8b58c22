package inventory

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/configmap"
	"github.com/plumbline-dev/plumbline/render"
)

func nodeSync() *v1alpha1.NodeSync {
	return &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "prod", UID: "11"}}
}

func cluster(t *testing.T, writes *int, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			*writes++
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			*writes++
			return c.Update(ctx, o, opts...)
		},
	}).Build()
}

func TestStore(t *testing.T) {
	writes := 0
	c := cluster(t, &writes)
	store, err := Load(t.Context(), c, nodeSync())
	if err != nil || store.Exists() {
		t.Fatalf("with none: exists %t, error %v", store.Exists(), err)
	}
	r := Record{Objects: map[render.Ref]types.UID{pool("a"): "1"}, Pools: map[string]bool{"a": true}}
	for range 2 {
		if err := store.Save(t.Context(), c, nodeSync(), r); err != nil {
			t.Fatal(err)
		}
	}
	if writes != 1 {
		t.Errorf("the same record was written %d times", writes)
	}
	second, err := Load(t.Context(), c, nodeSync())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, second.Record); diff != "" {
		t.Errorf("it comes back otherwise (-want +got):\n%s", diff)
	}
	r2 := Record{Objects: map[render.Ref]types.UID{pool("b"): "2"}, Pools: map[string]bool{"a": true, "b": true}}
	if err := second.Save(t.Context(), c, nodeSync(), r2); err != nil {
		t.Fatal(err)
	}
	if err := store.Save(t.Context(), c, nodeSync(), Record{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale store writes over a newer record: %v", err)
	}
	if err := second.Drop(t.Context(), c); err != nil || second.Exists() {
		t.Errorf("drop: exists %t, error %v", second.Exists(), err)
	}
	if gone, err := Load(t.Context(), c, nodeSync()); err != nil || gone.Exists() {
		t.Errorf("after the drop: exists %t, error %v", gone.Exists(), err)
	}
}

// TestARevisionCostsNoObjects: a commit changes the revision and seldom the objects, of which
// there may be ten thousand.
func TestARevisionCostsNoObjects(t *testing.T) {
	writes := 0
	c := cluster(t, &writes)
	store := &Store{}
	r := Record{Objects: map[render.Ref]types.UID{pool("a"): "1"}, Pools: map[string]bool{"a": true}}
	for _, r.Revision = range []string{"main@sha1:1", "main@sha1:2", "main@sha1:3"} {
		if err := store.Save(t.Context(), c, nodeSync(), r); err != nil {
			t.Fatal(err)
		}
		read, err := Load(t.Context(), c, nodeSync())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, read.Record); diff != "" {
			t.Errorf("it comes back otherwise (-want +got):\n%s", diff)
		}
	}
	if writes != 1 {
		t.Errorf("the objects were written %d times", writes)
	}
	stale, err := Load(t.Context(), c, nodeSync())
	if err != nil {
		t.Fatal(err)
	}
	r.Revision = "main@sha1:4"
	if err := store.Save(t.Context(), c, nodeSync(), r); err != nil {
		t.Fatal(err)
	}
	r.Revision = "main@sha1:5"
	if err := stale.Save(t.Context(), c, nodeSync(), r); !apierrors.IsConflict(err) {
		t.Errorf("a stale store writes over a newer revision: %v", err)
	}
}

// TestALostRecord: there is none, or its revision was taken off. One of an older version of
// plumbline never had any, and is one of this version once it is written.
func TestALostRecord(t *testing.T) {
	writes := 0
	c := cluster(t, &writes)
	load := func(want bool) *Store {
		t.Helper()
		store, err := Load(t.Context(), c, nodeSync())
		if err != nil || store.Lost() != want {
			t.Fatalf("lost: %t, want %t; %v", store.Lost(), want, err)
		}
		return store
	}
	change := func(how func(*corev1.ConfigMap)) {
		t.Helper()
		object := load(false).object.DeepCopy()
		err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if how(object); err == nil {
			err = c.Update(t.Context(), object)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r := Record{Objects: map[render.Ref]types.UID{pool("a"): "1"}, Pools: map[string]bool{"a": true}, Revision: "main@sha1:1"}
	save := func(store *Store) {
		t.Helper()
		if err := store.Save(t.Context(), c, nodeSync(), r); err != nil {
			t.Fatal(err)
		}
	}
	save(load(true))
	strip := func(object *corev1.ConfigMap) { object.Annotations = nil }
	change(strip)
	save(load(true))
	change(func(object *corev1.ConfigMap) {
		var packed bytes.Buffer
		writer := gzip.NewWriter(&packed)
		if _, err := writer.Write([]byte(`{"objects":{"NodePool/a":"1"},"pools":["a"]}`)); err != nil || writer.Close() != nil {
			t.Fatal(err)
		}
		strip(object)
		object.BinaryData[dataKey] = packed.Bytes()
	})
	save(load(false))
	change(strip)
	load(true)
}

func TestStoreRefusesAForeignRecord(t *testing.T) {
	writes := 0
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: v1alpha1.AppliedName("prod")}}
	if _, err := Load(t.Context(), cluster(t, &writes, foreign), nodeSync()); err == nil || !strings.Contains(err.Error(), "in the way") {
		t.Errorf("got %v", err)
	}
}

// TestAnImmutableRecord takes a newer Revision, which is an annotation, and says what to do where
// other objects are to be recorded.
func TestAnImmutableRecord(t *testing.T) {
	writes := 0
	c := cluster(t, &writes)
	r := Record{Objects: map[render.Ref]types.UID{pool("a"): "1"}, Revision: "main@sha1:1"}
	if err := (&Store{}).Save(t.Context(), c, nodeSync(), r); err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: "plumbline-system", Name: v1alpha1.AppliedName("prod")}, object); err != nil {
		t.Fatal(err)
	}
	object.Immutable = new(bool)
	*object.Immutable = true
	if err := c.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	store, err := Load(t.Context(), c, nodeSync())
	if err != nil {
		t.Fatal(err)
	}
	r.Revision = "main@sha1:2"
	if err := store.Save(t.Context(), c, nodeSync(), r); err != nil {
		t.Errorf("a newer Revision: %v", err)
	}
	r.Objects = map[render.Ref]types.UID{pool("a"): "1", pool("b"): "2"}
	var stuck *configmap.StuckError
	if err := store.Save(t.Context(), c, nodeSync(), r); !errors.As(err, &stuck) || !strings.Contains(err.Error(), "kubectl replace --force") {
		t.Errorf("another object: %v", err)
	}
}
