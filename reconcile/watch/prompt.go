package watch

import (
	"context"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// promptly is a manager whose watches are known to be filled as soon as they are. Those that
// a controller begins with ask for it every 100 ms, for the cache and then for the handler
// (sigs.k8s.io/controller-runtime pkg/internal/source/kind.go), and a start takes no
// longer than a few of these.
type promptly struct {
	ctrl.Manager
}

// GetCache returns the manager's cache, for watches.
func (p promptly) GetCache() cache.Cache { return &promptCache{Cache: p.Manager.GetCache()} }

// promptCache hands informers out before they are filled.
type promptCache struct {
	cache.Cache

	mu       sync.Mutex
	handlers []toolscache.DoneChecker
}

// GetInformer returns an informer that may not be filled yet.
func (c *promptCache) GetInformer(ctx context.Context, of client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, of, append(options, cache.BlockUntilSynced(false))...)
	return promptInformer{informer, c}, err
}

// WaitForCacheSync waits until all that was there is with the handlers.
func (c *promptCache) WaitForCacheSync(ctx context.Context) bool {
	c.mu.Lock()
	handlers := c.handlers
	c.mu.Unlock()
	return toolscache.WaitFor(ctx, "", handlers...)
}

// promptInformer notes the handlers that are added.
type promptInformer struct {
	cache.Informer

	cache *promptCache
}

// AddEventHandlerWithOptions adds a handler.
func (i promptInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	added, err := i.Informer.AddEventHandlerWithOptions(handler, options)
	if err == nil {
		i.cache.mu.Lock()
		i.cache.handlers = append(i.cache.handlers, added.HasSyncedChecker())
		i.cache.mu.Unlock()
	}
	return added, err
}
