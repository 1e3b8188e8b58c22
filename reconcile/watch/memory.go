package watch

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Memories keeps one T for each NodeSync. The zero value has none, and the zero value of T
// remembers nothing.
type Memories[T any] struct {
	mu sync.Mutex
	of map[types.NamespacedName]*kept[T]
}

type kept[T any] struct {
	uid   types.UID
	value T
	// pushedAt is when a Git host reported last that there is something new. That is no
	// pass's to write, so that the Store guards it.
	pushedAt time.Time
}

// Recall returns what is kept for a NodeSync. It is fresh where nothing was, or where the
// NodeSync was created again under its name.
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

// Len is for how many NodeSyncs something is kept.
func (s *Memories[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of)
}

// Push notes that a Git host has something new for a NodeSync. Nothing is noted for one
// that no reconcile was made over: its source is fetched by the first.
func (s *Memories[T]) Push(name types.NamespacedName, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.of[name]; ok {
		known.pushedAt = at
	}
}

// Pushed is when a Git host reported last that it has something new; zero if none has.
func (s *Memories[T]) Pushed(name types.NamespacedName) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.of[name]; ok {
		return known.pushedAt
	}
	return time.Time{}
}
