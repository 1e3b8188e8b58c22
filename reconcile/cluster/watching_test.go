package cluster_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/render"
)

// watched is a cache of the server's pools.
type watched struct {
	t        *testing.T
	server   *poolServer
	informer cache.Informer
	refusals *cluster.Refusals

	mu      sync.Mutex
	weights map[string]int64
}

// watchPools starts a server with the pools general and batch, and a cache that contains them.
func watchPools(t *testing.T) *watched {
	t.Helper()
	s := &poolServer{t: t, version: 10, pools: map[string]*unstructured.Unstructured{}, cut: make(chan struct{}), news: make(chan struct{})}
	s.set("general", 0)
	s.set("batch", 1)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // first: open watches would block Close
	kind, _ := render.KindOf(render.NodePool)
	scheme, kinds := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, apiextensionsv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, gvk := range []schema.GroupVersionKind{
		kind.GVK, apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), appsv1.SchemeGroupVersion.WithKind("Deployment"),
	} {
		kinds.Add(gvk, meta.RESTScopeRoot)
	}
	kinds.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	for _, gvk := range cluster.ChartedKinds() {
		kinds.Add(gvk, meta.RESTScopeRoot)
	}
	w := &watched{t: t, server: s, refusals: &cluster.Refusals{}, weights: map[string]int64{}}
	options := cluster.CacheOptions(w.refusals)
	config := &rest.Config{Host: server.URL}
	options.Scheme, options.Mapper = scheme, kinds
	c, err := cache.New(config, options)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Start(t.Context()) }() // it stops with the test
	pool := &unstructured.Unstructured{}
	pool.SetGroupVersionKind(kind.GVK)
	if w.informer, err = c.GetInformer(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if _, err := w.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: w.see, UpdateFunc: func(_, now any) { w.see(now) }, DeleteFunc: w.lose,
	}); err != nil {
		t.Fatal(err)
	}
	w.has(map[string]int64{"general": 0, "batch": 1})
	// A watch that ends before its first event does not continue.
	s.mu.Lock()
	s.set("general", 1)
	s.mu.Unlock()
	w.has(map[string]int64{"general": 1, "batch": 1})
	return w
}

func (w *watched) see(object any) {
	pool := object.(*unstructured.Unstructured)
	weight, _, _ := unstructured.NestedInt64(pool.Object, "spec", "weight")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.weights[pool.GetName()] = weight
}

func (w *watched) lose(object any) {
	if unseen, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = unseen.Obj
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.weights, object.(*unstructured.Unstructured).GetName())
}

// has waits until the handlers have seen exactly these pools and weights.
func (w *watched) has(want map[string]int64) {
	w.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		w.mu.Lock()
		got := fmt.Sprint(w.weights)
		w.mu.Unlock()
		if got == fmt.Sprint(want) {
			return
		}
		select {
		case <-deadline:
			asked, _ := w.server.requests()
			w.t.Fatalf("seen %s, want %v; asked %v", got, want, asked)
		case <-time.After(2 * time.Millisecond): // and check again
		}
	}
}

// TestWhatHappenedWhileAWatchWasAwayIsSeen, however it ended: a change, a new object, and a deleted one.
func TestWhatHappenedWhileAWatchWasAwayIsSeen(t *testing.T) {
	expired := &apierrors.NewResourceExpired("too old resource version: 12 (40)").ErrStatus
	gone := &apierrors.NewResourceExpired("the event in requested index is outdated").ErrStatus
	busy := &apierrors.NewTooManyRequests("later", 1).ErrStatus
	for name, tc := range map[string]struct {
		answers []func(http.ResponseWriter)
		// then are the requests that detect it.
		then []string
	}{
		"the watch is closed":             {nil, []string{"watch 13"}},
		"it has expired":                  {[]func(http.ResponseWriter){refuse(expired)}, []string{"watch 13", "list"}},
		"it is gone":                      {[]func(http.ResponseWriter){refuse(gone)}, []string{"watch 13", "list"}},
		"it turns out to have expired":    {[]func(http.ResponseWriter){toldInTheStream(expired)}, []string{"watch 13", "list"}},
		"the API server is busy":          {[]func(http.ResponseWriter){refuse(busy)}, []string{"watch 13", "watch 13"}},
		"it is busy, then it has expired": {[]func(http.ResponseWriter){refuse(busy), refuse(expired)}, []string{"watch 13", "watch 13", "list"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watchPools(t)
			w.server.away(func() {
				w.server.set("general", 2)
				w.server.set("fresh", 1)
				w.server.remove("batch")
			}, tc.answers...)
			w.has(map[string]int64{"general": 2, "fresh": 1})
			asked, at := w.server.requests()
			if diff := cmp.Diff(tc.then, asked[:min(len(asked), len(tc.then))]); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if waited := at[1:]; strings.Contains(name, "busy") && waited[0].Sub(at[0]) < time.Second {
				t.Errorf("asked again after %s", waited[0].Sub(at[0]))
			}
			if err := w.refusals.Err(); err != nil {
				t.Errorf("taken for a refusal: %v", err)
			}
		})
	}
}
