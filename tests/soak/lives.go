package soak

import (
	"slices"
	"sync"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// lives is when each instance existed.
type lives struct {
	mu sync.Mutex
	of map[string]life
}

type life struct {
	pool         string
	began, ended time.Time // ended is zero while it exists
}

// hear records an event of an instance.
func (l *lives) hear(e awssim.Event) { l.note(e, time.Now()) }

func (l *lives) note(e awssim.Event, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]life{}
	}
	one, known := l.of[e.Instance.ID]
	if !known {
		one = life{pool: e.Instance.Tags[poolTag], began: now}
	}
	if e.Kind == awssim.Terminated {
		one.ended = now
	}
	l.of[e.Instance.ID] = one
}

// in returns the instances of a pool that existed at a time.
func (l *lives) in(pool string, at time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var there []string
	for id, one := range l.of {
		if one.pool == pool && !one.began.After(at) && (one.ended.IsZero() || one.ended.After(at)) {
			there = append(there, id)
		}
	}
	slices.Sort(there)
	return there
}
