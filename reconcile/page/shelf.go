package page

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

const (
	// fresh is for how long an answer is given again.
	fresh = time.Second
	// Pages that are not on the shelf are made one at a time, and no more than these: a page of
	// 500 pools takes some milliseconds.
	rendersRate, rendersBurst = rate.Limit(10), 20
)

// errBusy says that too many different pages are asked for.
var errBusy = errors.New("too many different pages are asked for")

// shelf keeps answers for a second, and has those who ask for the same page share its render.
type shelf struct {
	now    func() time.Time
	read   func(context.Context) (*World, error)
	render func(*World, query) (written, error)

	making  singleflight.Group
	one     chan struct{} // held by who reads and renders
	limiter *rate.Limiter

	mu      sync.Mutex
	answers map[query]kept
	world   *World
}

type kept struct {
	page written
	at   time.Time
}

func newShelf(now func() time.Time, read func(context.Context) (*World, error), render func(*World, query) (written, error)) *shelf {
	return &shelf{now: now, read: read, render: render, one: make(chan struct{}, 1), limiter: rate.NewLimiter(rendersRate, rendersBurst), answers: map[query]kept{}}
}

// get is the page for a query.
func (s *shelf) get(ctx context.Context, q query) (written, error) {
	if page, found := s.kept(q); found {
		return page, nil
	}
	answers := s.making.DoChan(q.address(), func() (any, error) {
		// Others may wait for it when the first who asked has gone.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		return s.make(ctx, q)
	})
	select {
	case answer := <-answers:
		if answer.Err != nil {
			return written{}, answer.Err
		}
		return answer.Val.(written), nil
	case <-ctx.Done():
		return written{}, ctx.Err()
	}
}

// make reads and renders.
func (s *shelf) make(ctx context.Context, q query) (written, error) {
	select {
	case s.one <- struct{}{}:
		defer func() { <-s.one }()
	case <-ctx.Done():
		return written{}, ctx.Err()
	}
	if page, found := s.kept(q); found {
		return page, nil
	}
	if !s.limiter.AllowN(s.now(), 1) {
		return written{}, errBusy
	}
	if s.world == nil || s.now().Sub(s.world.Now) >= fresh {
		world, err := s.read(ctx)
		if err != nil {
			return written{}, err
		}
		s.world = world
	}
	page, err := s.render(s.world, q)
	if err != nil {
		return written{}, err
	}
	s.keep(q, page)
	return page, nil
}

func (s *shelf) kept(q query) (written, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, has := s.answers[q]
	return found.page, has && s.now().Sub(found.at) < fresh
}

// keep keeps an answer, and no older ones: their number is bounded by the limit.
func (s *shelf) keep(q query, page written) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, old := range s.answers {
		if s.now().Sub(old.at) >= fresh {
			delete(s.answers, other)
		}
	}
	s.answers[q] = kept{page, s.world.Now}
}
