package source

import (
	"fmt"
	"sync"
)

// SpaceError says that what is fetched does not fit beside all else that the daemon has fetched.
type SpaceError struct {
	// Limit in bytes.
	Limit int64
}

// Error names the limit and says what to do.
func (e *SpaceError) Error() string {
	return fmt.Sprintf("all Git stores and artifacts together would exceed the limit of %d bytes: raise --git-store-limit and the size of the cache's volume, "+
		"or follow fewer or smaller repositories", e.Limit)
}

// Space is the disk space that all Git stores and artifacts of a daemon share. While a store is replaced, the old one is not
// counted: on disk there may be twice the limit for a moment. A nil Space has no limit.
type Space struct {
	// Limit in bytes.
	Limit int64
	// Of is the Space that this one is a part of; nil if it is none.
	Of *Space

	mu   sync.Mutex
	used int64
}

// Take takes some bytes; a *SpaceError if that would exceed the limit.
func (s *Space) Take(bytes int64) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+bytes > s.Limit {
		return &SpaceError{Limit: s.Limit}
	}
	if err := s.Of.Take(bytes); err != nil {
		return err
	}
	s.used += bytes
	return nil
}

// Add counts bytes that are on disk already, beyond the limit if need be. A negative number gives bytes back.
func (s *Space) Add(bytes int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Of.Add(bytes)
	s.used += bytes
}
