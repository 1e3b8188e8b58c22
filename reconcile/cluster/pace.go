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

// The least and the longest time between two reconciles that watch events wake.
// Karpenter answers a change of a thousand pools with thousands of events, over
// seconds: a reconcile for each would write a status for each.
const (
	moment        = 50 * time.Millisecond
	longestMoment = time.Second
)

// If a reconcile itself takes long, as over thousands of objects, the next one that events trigger waits for so many times its
// duration, up to a limit. So passes take at most a fifth of a core while events keep coming, and the status is never older
// than that wait.
const (
	restsFor   = 4
	longestAll = 10 * time.Second
)

// Pace holds back what watches wake: the first event of a NodeSync wakes it at
// once, and those that follow within a moment together at its end. While they do
// not cease, each moment is twice as long as the one before.
type Pace struct {
	// Now tells the time.
	Now func() time.Time

	mu sync.Mutex
	of map[reconcile.Request]turn
}

// Took notes how long the last reconcile of a NodeSync took that watches have woken.
func (p *Pace) Took(request reconcile.Request, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, waits := p.of[request]; waits {
		t.longest = max(longestMoment, min(restsFor*d, longestAll))
		p.of[request] = t
	}
}

// turn is when a NodeSync was woken last, or will be, and how long it is held back
// after that.
type turn struct {
	at     time.Time
	moment time.Duration
	// longest is the longest that a moment gets; zero if no reconcile has completed since there were turns.
	longest time.Duration
}

// Handler wakes those that an object concerns.
func (p *Pace) Handler(concerned handler.MapFunc) handler.EventHandler {
	return paced{handler: handler.EnqueueRequestsFromMapFunc(concerned), pace: p}
}

// wait is how long from now a request is held back.
func (p *Pace) wait(request reconcile.Request) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[reconcile.Request]turn{}
	}
	now := p.Now()
	next := p.of[request].next(now)
	if next != p.of[request] {
		// What is over holds nobody back, and may be of a NodeSync that is gone.
		maps.DeleteFunc(p.of, func(_ reconcile.Request, t turn) bool { return t.over(now) })
	}
	p.of[request] = next
	return next.at.Sub(now)
}

// next is the turn that an event belongs to.
func (t turn) next(now time.Time) turn {
	switch {
	case t.at.After(now):
		return t // with those that wait already
	case !t.over(now):
		return turn{at: t.end(), moment: min(2*t.moment, max(t.longest, longestMoment)), longest: t.longest}
	}
	return turn{at: now, moment: moment}
}

func (t turn) end() time.Time { return t.at.Add(t.moment) }

// over reports whether a turn is as good as none.
func (t turn) over(now time.Time) bool { return !t.end().After(now) }

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

// Ends hears of NodeClaims as the cache has them. What it does with them is quick: the watch
// waits for it.
type Ends interface {
	// See is called with each one that there is news of.
	See(claim *karpv1.NodeClaim)
	// Gone is called with each one that is gone, as it was seen last; missed reports that its last
	// changes were not watched.
	Gone(claim *karpv1.NodeClaim, missed bool)
}

// Tell has Ends hear of all events of a watch, and lets them through. Nil hears nothing.
func Tell(ends Ends) predicate.Predicate {
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
