// Package watchtest provides fakes of the cache, the controller and the discovery that watches use.
package watchtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
)

// Cache is a cache that records what is watched.
type Cache struct {
	cache.Cache
	// Objects are the objects in the cache; if nil, those of the Wakes.
	Objects      client.Reader
	Begun, Ended []string
	// Empty are the kinds whose cache is not synced.
	Empty map[string]bool
	// Unlisted are the kinds that discovery does not list.
	Unlisted map[string]bool
}

// NewCache returns a synced one, in whose cluster all kinds are listed.
func NewCache() *Cache { return &Cache{Empty: map[string]bool{}, Unlisted: map[string]bool{}} }

// Watches returns watches that use the cache.
func (f *Cache) Watches(scheme *runtime.Scheme, wakes watch.Wakes, refusals *cluster.Refusals, now func() time.Time) *watch.Watches {
	if f.Objects == nil {
		f.Objects = wakes.Cached
	}
	side := watch.Side{Cache: f, Kinds: discovery{noted: f}}
	return &watch.Watches{
		Controller: noting{noted: f}, Home: side, Nodes: side, Scheme: scheme,
		Refusals: refusals, Wakes: wakes, Pace: &cluster.Pace{Now: now}, Now: now,
	}
}

// Get reads an object.
func (f *Cache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return f.Objects.Get(ctx, key, object, options...)
}

// List lists a kind.
func (f *Cache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return f.Objects.List(ctx, list, options...)
}

// GetInformer returns an informer that is synced unless its kind is in Empty.
func (f *Cache) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if f.Empty[kindOf(object)] {
		return controllertest.NewFakeInformer(), nil
	}
	return controllertest.NewFakeInformer(controllertest.Synced), nil
}

// RemoveInformer records that a watch stops.
func (f *Cache) RemoveInformer(_ context.Context, object client.Object) error {
	f.Ended = append(f.Ended, kindOf(object))
	return nil
}

func kindOf(object client.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	_, name, _ := strings.Cut(fmt.Sprintf("%T", object), ".")
	return name
}

// noting is a controller that records the watches that start.
type noting struct {
	controller.Controller
	noted *Cache
}

func (f noting) Watch(watch source.TypedSource[ctrlreconcile.Request]) error {
	words := strings.FieldsFunc(fmt.Sprint(watch), func(r rune) bool { return r == '.' || r == ' ' || r == ']' })
	f.noted.Begun = append(f.noted.Begun, words[len(words)-1])
	return nil
}

// discovery lists all kinds except the unlisted ones.
type discovery struct {
	meta.RESTMapper
	noted *Cache
}

func (f discovery) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if f.noted.Unlisted[kind.Kind] {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return &meta.RESTMapping{}, nil
}
