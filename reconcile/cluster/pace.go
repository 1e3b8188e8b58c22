package cluster

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// The minimum and maximum time between two reconciles that watch events trigger. Karpenter responds to a change of a
// thousand pools with thousands of events over several seconds: a reconcile for each would write a status for each.
const (
	minDelay = 50 * time.Millisecond
	maxDelay = time.Second
)

// If a reconcile itself takes long, for example over thousands of objects, the next one that events trigger waits for a
// multiple of its duration, up to a limit. Under a steady stream of events, reconciles thus take at most a fifth of a
// core, and the status is never older than that wait.
const (
	restMultiple = 4
	maxRest      = 10 * time.Second
)

// Pace delays what watches enqueue: the first event of a NodeSync enqueues it immediately, and those that follow within
// a moment enqueue it once, at the end of the moment. Under a steady stream of events, each moment is twice as long as
// the one before.
type Pace struct {
	// Now returns the current time.
	Now func() time.Time

	mu sync.Mutex
	of map[reconcile.Request]turn
}

// Took records how long the last reconcile took that watches triggered for a NodeSync.
func (p *Pace) Took(request reconcile.Request, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, waits := p.of[request]; waits {
		t.longest = max(maxDelay, min(restMultiple*d, maxRest))
		p.of[request] = t
	}
}

// turn is when a NodeSync was last enqueued, or will be, and how long further events are delayed after that.
type turn struct {
	at     time.Time
	moment time.Duration
	// longest limits the moment; zero if no reconcile has completed since the first turn.
	longest time.Duration
}

// Handler enqueues the requests that an object concerns.
func (p *Pace) Handler(concerned handler.MapFunc) handler.EventHandler {
	return paced{handler: handler.EnqueueRequestsFromMapFunc(concerned), pace: p}
}

// wait returns how long a request is delayed from now.
func (p *Pace) wait(request reconcile.Request) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[reconcile.Request]turn{}
	}
	now := p.Now()
	next := p.of[request].next(now)
	if next != p.of[request] {
		// A turn that is over delays nothing, and may be of a deleted NodeSync.
		maps.DeleteFunc(p.of, func(_ reconcile.Request, t turn) bool { return t.over(now) })
	}
	p.of[request] = next
	return next.at.Sub(now)
}

// next returns the turn that an event belongs to.
func (t turn) next(now time.Time) turn {
	switch {
	case t.at.After(now):
		return t // together with those that already wait
	case !t.over(now):
		return turn{at: t.end(), moment: min(2*t.moment, max(t.longest, maxDelay)), longest: t.longest}
	}
	return turn{at: now, moment: minDelay}
}

func (t turn) end() time.Time { return t.at.Add(t.moment) }

// over reports whether a turn no longer delays anything.
func (t turn) over(now time.Time) bool { return !t.end().After(now) }

// queue is the queue of a handler.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// paced is a handler whose requests are delayed.
type paced struct {
	handler handler.EventHandler
	pace    *Pace
}

// Create, Update, Delete and Generic implement handler.EventHandler.
func (h paced) Create(ctx context.Context, e event.CreateEvent, q queue) {
	h.handler.Create(ctx, e, pacedQueue{q, h.pace})
}

// Update handles a changed object.
func (h paced) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	h.handler.Update(ctx, e, pacedQueue{q, h.pace})
}

// Delete handles a deleted object.
func (h paced) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	h.handler.Delete(ctx, e, pacedQueue{q, h.pace})
}

// Generic handles an event that is not from a watch.
func (h paced) Generic(ctx context.Context, e event.GenericEvent, q queue) {
	h.handler.Generic(ctx, e, pacedQueue{q, h.pace})
}

// pacedQueue adds requests with a delay.
type pacedQueue struct {
	queue

	pace *Pace
}

// Add adds a request with its delay; a request that already waits is not added twice.
func (q pacedQueue) Add(request reconcile.Request) {
	q.AddAfter(request, q.pace.wait(request))
}

// ClaimEvents is notified of NodeClaims in the cache. Its methods must be quick, because the watch waits for them.
type ClaimEvents interface {
	// See is called for each new or changed NodeClaim.
	See(claim *karpv1.NodeClaim)
	// Gone is called for each deleted NodeClaim, with its last known state; missed reports whether its last changes
	// were not watched.
	Gone(claim *karpv1.NodeClaim, missed bool)
}

// NotifyClaims returns a predicate that notifies ClaimEvents of all events of a watch and admits them. ends may be nil.
func NotifyClaims(ends ClaimEvents) predicate.Predicate {
	if ends == nil {
		return predicate.Funcs{}
	}
	see := func(object client.Object) bool {
		if claim, ok := object.(*karpv1.NodeClaim); ok {
			ends.See(claim)
		}
		return true
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return see(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return see(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool {
			if claim, ok := e.Object.(*karpv1.NodeClaim); ok {
				ends.Gone(claim, e.DeleteStateUnknown)
			}
			return true
		},
	}
}
