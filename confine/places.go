package confine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

type ownerKey struct{}

// For returns a context whose children work for an owner: the repository that the work is for. An owner has at most one
// child at a time.
func For(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// OwnerOf returns the owner of a context; empty if it has none.
func OwnerOf(ctx context.Context) string {
	owner, _ := ctx.Value(ownerKey{}).(string)
	return owner
}

// places are the slots for children, given to owners in turn: an owner that had a place and wants another queues behind
// all others, however much work it has. Owners that have held places for long recently, the heavy ones, never get all
// of them: one place is reserved for the others, who then wait only for one another. Work without an owner counts as a
// separate owner.
type places struct {
	now func() time.Time

	mu   sync.Mutex
	all  int
	free int
	// queue are the owners that wait and hold no place.
	queue []*owner
	// named are the owners that wait, hold a place, or have held one recently.
	named map[string]*owner
}

// owner is an owner with work.
type owner struct {
	name    string
	holds   bool
	waiting []*claim
	// since is when it got the place that it holds.
	since  time.Time
	recent recentUsage
}

// heavy reports whether it has held places for long recently, including the one that it holds.
func (o *owner) heavy(now time.Time) bool {
	held := o.recent.now(now)
	if o.holds {
		held += now.Sub(o.since)
	}
	return held >= heavyFrom
}

// claim is a request of one child for a place.
type claim struct {
	owner *owner
	// given is closed when the place is available.
	given chan struct{}
}

func newPlaces(n int, now func() time.Time) *places {
	return &places{now: now, all: n, free: n, named: map[string]*owner{}}
}

// heavy reports whether an owner has held places for long recently.
func (p *places) heavy(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.named[name]
	return o != nil && o.heavy(p.now())
}

// acquire waits for a place, and returns a function that releases it.
func (p *places) acquire(ctx context.Context) (back func(), err error) {
	c := p.claim(OwnerOf(ctx))
	select {
	case <-c.given:
		return func() { p.release(c) }, nil
	case <-ctx.Done():
		p.release(c)
		return nil, ctx.Err()
	}
}

// claim queues for a place.
func (p *places) claim(name string) *claim {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.named[name]
	if o == nil || name == "" {
		o = &owner{name: name}
	}
	if name != "" {
		p.named[name] = o
	}
	c := &claim{owner: o, given: make(chan struct{})}
	if o.waiting = append(o.waiting, c); !o.holds && len(o.waiting) == 1 {
		p.queue = append(p.queue, o)
	}
	p.assign(p.now())
	return c
}

// release releases a place, or stops waiting for one.
func (p *places) release(c *claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, now := c.owner, p.now()
	if i := slices.Index(o.waiting, c); i >= 0 {
		o.waiting = slices.Delete(o.waiting, i, i+1)
		if len(o.waiting) == 0 {
			p.queue = slices.DeleteFunc(p.queue, func(other *owner) bool { return other == o })
		}
	} else {
		o.holds, o.recent = false, o.recent.and(now.Sub(o.since), now)
		p.free++
		if len(o.waiting) > 0 {
			p.queue = append(p.queue, o)
		}
	}
	p.forget(now)
	p.assign(now)
}

// forget drops the owners without work that have held no place recently.
func (p *places) forget(now time.Time) {
	maps.DeleteFunc(p.named, func(_ string, o *owner) bool {
		return !o.holds && len(o.waiting) == 0 && o.recent.now(now) == 0
	})
}

// assign assigns free places to the first owners in the queue, and skips heavy ones that have their share.
func (p *places) assign(now time.Time) {
	for p.free > 0 {
		i := slices.IndexFunc(p.queue, func(o *owner) bool { return p.mayHave(o, now) })
		if i < 0 {
			return
		}
		o := p.queue[i]
		p.queue = slices.Delete(p.queue, i, i+1)
		first := o.waiting[0]
		o.waiting = o.waiting[1:]
		o.holds, o.since = true, now
		p.free--
		close(first.given)
	}
}

// mayHave reports whether an owner may have a free place.
func (p *places) mayHave(o *owner, now time.Time) bool {
	if !o.heavy(now) {
		return true
	}
	have := 0
	for _, other := range p.named {
		if other.holds && other.heavy(now) {
			have++
		}
	}
	return have < max(1, p.all-1)
}
