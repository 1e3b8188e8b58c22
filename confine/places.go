package confine

import (
	"context"
	"slices"
	"sync"
)

type ownerKey struct{}

// For returns a context whose children work for an owner: the repository that asks for
// the work. Of all places for children an owner holds one at a time.
func For(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// OwnerOf is the owner of the children of a context; empty for none.
func OwnerOf(ctx context.Context) string {
	owner, _ := ctx.Value(ownerKey{}).(string)
	return owner
}

// places are given to owners in turn: one that has held a place and wants another
// queues behind all others, however much work it has. Work without an owner counts as
// that of an owner of its own.
type places struct {
	mu   sync.Mutex
	free int
	// queue are the owners that wait and hold no place.
	queue []*owner
	// named are the owners that wait or hold a place.
	named map[string]*owner
}

// owner is somebody with work.
type owner struct {
	name    string
	holds   bool
	waiting []*claim
}

// claim is one child's for a place.
type claim struct {
	owner *owner
	// given is closed when the place is there.
	given chan struct{}
}

func newPlaces(n int) *places { return &places{free: n, named: map[string]*owner{}} }

// take waits for a place, and returns what gives it back.
func (p *places) take(ctx context.Context) (back func(), err error) {
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
	p.give()
	return c
}

// release gives a place back, or ends the wait for one.
func (p *places) release(c *claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := c.owner
	if i := slices.Index(o.waiting, c); i >= 0 {
		o.waiting = slices.Delete(o.waiting, i, i+1)
		if len(o.waiting) == 0 {
			p.queue = slices.DeleteFunc(p.queue, func(other *owner) bool { return other == o })
		}
	} else {
		o.holds = false
		p.free++
		if len(o.waiting) > 0 {
			p.queue = append(p.queue, o)
		}
	}
	if !o.holds && len(o.waiting) == 0 && o.name != "" {
		delete(p.named, o.name)
	}
	p.give()
}

// give hands free places to the owners at the front.
func (p *places) give() {
	for p.free > 0 && len(p.queue) > 0 {
		o := p.queue[0]
		p.queue = p.queue[1:]
		first := o.waiting[0]
		o.waiting = o.waiting[1:]
		o.holds = true
		p.free--
		close(first.given)
	}
}
