package watch

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Memories keeps one T for each NodeSync. The zero value is empty, and the zero value of T remembers nothing.
type Memories[T any] struct {
	mu sync.Mutex
	of map[types.NamespacedName]*kept[T]
}

type kept[T any] struct {
	uid   types.UID
	value T
	// pushedAt is when a Git host last reported something new. It is not written by reconciles, so mu guards it.
	pushedAt time.Time
}

// Recall returns what is kept for a NodeSync. It is fresh if nothing was kept, or if the NodeSync was recreated.
func (s *Memories[T]) Recall(name types.NamespacedName, uid types.UID) (value *T, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[types.NamespacedName]*kept[T]{}
	}
	if known, ok := s.of[name]; ok && known.uid == uid {
		return &known.value, false
	}
	s.of[name] = &kept[T]{uid: uid}
	return &s.of[name].value, true
}

// Forget drops what is kept for a NodeSync.
func (s *Memories[T]) Forget(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, name)
}

// Len returns the number of NodeSyncs for which something is kept.
func (s *Memories[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of)
}

// Push records that a Git host has something new for a NodeSync. It records nothing for one that was never reconciled:
// the first reconcile fetches its source.
func (s *Memories[T]) Push(name types.NamespacedName, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.of[name]; ok {
		known.pushedAt = at
	}
}

// Pushed returns when a Git host last reported something new; zero if none has.
func (s *Memories[T]) Pushed(name types.NamespacedName) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.of[name]; ok {
		return known.pushedAt
	}
	return time.Time{}
}
