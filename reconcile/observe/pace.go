package observe

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// moment is the least time between two passes that watch events wake. Karpenter
// answers a change of a hundred pools with hundreds of events: a pass for each
// would write a status for each.
const moment = 50 * time.Millisecond

// Pace holds back what watches wake: the first event of a NodeSync wakes it at
// once, and those that follow within a moment together at its end.
type Pace struct {
	// Now tells the time.
	Now func() time.Time

	mu sync.Mutex
	// next is the last time at which each was, or will be, woken.
	next map[reconcile.Request]time.Time
}

// Handler wakes those that an object concerns.
func (p *Pace) Handler(concerned handler.MapFunc) handler.EventHandler {
	return paced{handler: handler.EnqueueRequestsFromMapFunc(concerned), pace: p}
}

// wait is how long from now a request is held back.
func (p *Pace) wait(request reconcile.Request) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	if p.next == nil {
		p.next = map[reconcile.Request]time.Time{}
	}
	if at := p.next[request]; !at.After(now) {
		p.next[request] = later(now, at.Add(moment))
	}
	return p.next[request].Sub(now)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// queue is what a handler puts requests into.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// paced is a handler whose requests are held back.
type paced struct {
	handler handler.EventHandler
	pace    *Pace
}

// Create, Update, Delete and Generic make it a handler.
func (h paced) Create(ctx context.Context, e event.CreateEvent, q queue) {
	h.handler.Create(ctx, e, pacedQueue{q, h.pace})
}

// Update is called for each change.
func (h paced) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	h.handler.Update(ctx, e, pacedQueue{q, h.pace})
}

// Delete is called for what has gone.
func (h paced) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	h.handler.Delete(ctx, e, pacedQueue{q, h.pace})
}

// Generic is called for what comes from no watch.
func (h paced) Generic(ctx context.Context, e event.GenericEvent, q queue) {
	h.handler.Generic(ctx, e, pacedQueue{q, h.pace})
}

// pacedQueue adds requests later.
type pacedQueue struct {
	queue

	pace *Pace
}

// Add adds a request at its time; one that waits already is not added twice.
func (q pacedQueue) Add(request reconcile.Request) {
	q.AddAfter(request, q.pace.wait(request))
}
