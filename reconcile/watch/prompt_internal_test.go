package watch

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	fakesource "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// oneInformer is a cache of one kind.
type oneInformer struct {
	cache.Cache
	informer toolscache.SharedIndexInformer
	blocks   bool
}

func (c *oneInformer) GetInformer(_ context.Context, _ client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	with := &cache.InformerGetOptions{}
	for _, option := range options {
		option(with)
	}
	c.blocks = with.BlockUntilSynced == nil || *with.BlockUntilSynced
	return c.informer, nil
}

// TestAWatchIsFilledOnceItsHandlerHasAll: a controller begins then, and not before.
func TestAWatchIsFilledOnceItsHandlerHasAll(t *testing.T) {
	listed := fakesource.NewFakeControllerSource()
	listed.Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}})
	informer := toolscache.NewSharedIndexInformer(listed, &corev1.Secret{}, 0, nil)
	inner := &oneInformer{informer: informer}
	prompt := &promptCache{Cache: inner}
	got, err := prompt.GetInformer(t.Context(), &corev1.Secret{})
	if err != nil || inner.blocks {
		t.Fatalf("it waits for the cache: %t, %v", inner.blocks, err)
	}
	seen := make(chan string, 1)
	handler := toolscache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		secret, _ := object.(*corev1.Secret)
		seen <- secret.Name
	}}
	if _, err := got.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{}); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if prompt.WaitForCacheSync(ended) {
		t.Fatal("it counts as filled before anything was listed")
	}
	go informer.Run(t.Context().Done())
	within, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	if !prompt.WaitForCacheSync(within) {
		t.Fatal("it does not fill")
	}
	select {
	case name := <-seen:
		if name != "one" {
			t.Errorf("the handler has %q", name)
		}
	default:
		t.Error("it counts as filled before the handler has what was listed")
	}
}
