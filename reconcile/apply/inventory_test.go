package apply

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

func pool(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }

func object(uid types.UID) *plan.Object {
	u := &unstructured.Unstructured{}
	u.SetUID(uid)
	return plan.NewObject(u)
}

func TestNext(t *testing.T) {
	class := render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	cases := map[string]struct {
		before  map[render.Ref]types.UID
		owned   map[render.Ref]types.UID
		foreign Objects
		gone    map[types.UID]bool
		want    map[render.Ref]types.UID
	}{
		"what lives is recorded":                 {owned: map[render.Ref]types.UID{pool("a"): "1", class: "2"}, want: map[render.Ref]types.UID{pool("a"): "1", class: "2"}},
		"a pool that vanished stays":             {before: map[render.Ref]types.UID{pool("a"): "1"}, want: map[render.Ref]types.UID{pool("a"): "1"}},
		"a class that vanished does not":         {before: map[render.Ref]types.UID{class: "1"}, want: map[render.Ref]types.UID{}},
		"one that is verified gone does not":     {before: map[render.Ref]types.UID{pool("a"): "1"}, gone: map[types.UID]bool{"1": true}, want: map[render.Ref]types.UID{}},
		"nor where a cache still has it":         {owned: map[render.Ref]types.UID{pool("a"): "1"}, gone: map[types.UID]bool{"1": true}, want: map[render.Ref]types.UID{}},
		"one that is recreated has its new UID":  {before: map[render.Ref]types.UID{pool("a"): "1"}, owned: map[render.Ref]types.UID{pool("a"): "2"}, want: map[render.Ref]types.UID{pool("a"): "2"}},
		"one that lives as another's is dropped": {before: map[render.Ref]types.UID{pool("a"): "1"}, foreign: Objects{pool("a"): object("1")}, want: map[render.Ref]types.UID{}},
		"one whose name another's has stays":     {before: map[render.Ref]types.UID{pool("a"): "1"}, foreign: Objects{pool("a"): object("2")}, want: map[render.Ref]types.UID{pool("a"): "1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			live := Objects{}
			for ref, uid := range c.owned {
				live[ref] = object(uid)
			}
			for ref, o := range c.foreign {
				live[ref] = o
			}
			next := NextRecord(Record{Objects: c.before}, c.owned, live, c.gone)
			if diff := cmp.Diff(c.want, next.Objects); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := NextRecord(next, c.owned, live, c.gone); !again.Equal(next) {
				t.Errorf("it is written again without a cause: %v, then %v", next, again)
			}
		})
	}
}

// TestNoPoolIsForgotten: a pool stays in the record until it is confirmed to be gone, and its name stays forever.
func TestNoPoolIsForgotten(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		r := Record{}
		live, open := Objects{}, map[render.Ref]types.UID{}
		serial := 0
		t.Repeat(map[string]func(*rapid.T){
			"pass": func(*rapid.T) {
				owned := map[render.Ref]types.UID{}
				for ref, o := range live {
					owned[ref] = o.GetUID()
				}
				r = NextRecord(r, owned, live, nil)
				for ref, uid := range owned {
					open[ref] = uid
				}
				if diff := cmp.Diff(open, r.Objects); diff != "" {
					t.Fatalf("the record (-want +got):\n%s", diff)
				}
			},
			"create": func(t *rapid.T) {
				serial++
				ref := pool(rapid.StringMatching("[a-c]").Draw(t, "name"))
				if live[ref] == nil {
					live[ref] = object(types.UID(fmt.Sprint(serial)))
				}
			},
			"delete": func(t *rapid.T) { delete(live, pool(rapid.StringMatching("[a-c]").Draw(t, "name"))) },
		})
		for ref := range open {
			if !r.Pools[ref.Name] {
				t.Fatalf("%s was applied, and is not among %v", ref, r.Pools)
			}
		}
	})
}

func TestARecordOfTenThousandFits(t *testing.T) {
	r := Record{Objects: map[render.Ref]types.UID{}, Pools: map[string]bool{}}
	for i := range 10_000 {
		name := fmt.Sprintf("team-%04d-general-purpose", i)
		r.Objects[pool(name)] = uuid.NewUUID()
		r.Pools[name] = true
	}
	packed, err := encode(r)
	if err != nil {
		t.Fatal(err)
	}
	if most := 512 << 10; len(packed) > most {
		t.Errorf("packed it has %d bytes, want at most %d of the 1 MiB of a ConfigMap", len(packed), most)
	}
	unpacked, _, err := decode(packed)
	if err != nil || !unpacked.Equal(r) {
		t.Errorf("it and another one: error %v", err)
	}
}

// FuzzDecode: other clients can write a record.
func FuzzDecode(f *testing.F) {
	packed, err := encode(Record{Objects: map[render.Ref]types.UID{pool("a"): "1"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, _, err := decode(data)
		if err != nil {
			return
		}
		again, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if back, _, err := decode(again); err != nil || len(back.Objects) != len(r.Objects) {
			t.Errorf("%v and %v, error %v", r, back, err)
		}
	})
}

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
	store, err := LoadRecord(t.Context(), c, nodeSync())
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
	second, err := LoadRecord(t.Context(), c, nodeSync())
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
	if gone, err := LoadRecord(t.Context(), c, nodeSync()); err != nil || gone.Exists() {
		t.Errorf("after the drop: exists %t, error %v", gone.Exists(), err)
	}
}

// TestARevisionCostsNoObjects: a commit changes the revision and rarely the objects, of which there may be ten
// thousand.
func TestARevisionCostsNoObjects(t *testing.T) {
	writes := 0
	c := cluster(t, &writes)
	store := &RecordStore{}
	r := Record{Objects: map[render.Ref]types.UID{pool("a"): "1"}, Pools: map[string]bool{"a": true}}
	for _, r.Revision = range []string{"main@sha1:1", "main@sha1:2", "main@sha1:3"} {
		if err := store.Save(t.Context(), c, nodeSync(), r); err != nil {
			t.Fatal(err)
		}
		read, err := LoadRecord(t.Context(), c, nodeSync())
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
	stale, err := LoadRecord(t.Context(), c, nodeSync())
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

// TestALostRecord: it does not exist, or its revision was removed. A record of an older version of plumbline has no
// revision until it is written again.
func TestALostRecord(t *testing.T) {
	writes := 0
	c := cluster(t, &writes)
	load := func(want bool) *RecordStore {
		t.Helper()
		store, err := LoadRecord(t.Context(), c, nodeSync())
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
	save := func(store *RecordStore) {
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
	if _, err := LoadRecord(t.Context(), cluster(t, &writes, foreign), nodeSync()); err == nil || !strings.Contains(err.Error(), "in the way") {
		t.Errorf("got %v", err)
	}
}

// TestAnImmutableRecord accepts a newer Revision, which is an annotation, and the error for other objects says what to
// do.
func TestAnImmutableRecord(t *testing.T) {
	writes := 0
	c := cluster(t, &writes)
	r := Record{Objects: map[render.Ref]types.UID{pool("a"): "1"}, Revision: "main@sha1:1"}
	if err := (&RecordStore{}).Save(t.Context(), c, nodeSync(), r); err != nil {
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
	store, err := LoadRecord(t.Context(), c, nodeSync())
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
