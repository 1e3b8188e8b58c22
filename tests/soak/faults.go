package soak

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// longestFault is how long a fault stands: longer than a leader's lease.
const longestFault = 20 * time.Second

// fault is one that stands.
type fault struct {
	name  string
	until time.Time
	end   func(context.Context) error
}

// faults are those that stand.
type faults struct {
	mu       sync.Mutex
	standing []fault
	changed  time.Time // when one last began or ended
}

// add has a fault stand.
func (f *faults) add(one fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.standing = append(f.standing, one)
	f.changed = time.Now()
}

// take takes out those whose time has come by a moment.
func (f *faults) take(by time.Time) []fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var due, left []fault
	for _, one := range f.standing {
		if one.until.After(by) {
			left = append(left, one)
		} else {
			due = append(due, one)
		}
	}
	f.standing = left
	return due
}

// disturb notes that something goes wrong at this moment alone.
func (f *faults) disturb() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = time.Now()
}

// quietSince reports whether no fault stands, and since when.
func (f *faults) quietSince() (since time.Time, quiet bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed, len(f.standing) == 0
}

// next is when the next fault ends.
func (f *faults) next() (at time.Time, any bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.standing {
		if !any || one.until.Before(at) {
			at, any = one.until, true
		}
	}
	return at, any
}

// stands reports whether one of these names stands.
func (f *faults) stands(names ...string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.standing, func(one fault) bool { return slices.Contains(names, one.name) })
}

// lasting draws how long a fault is to stand.
func (s *soak) lasting() time.Duration {
	return time.Second + time.Duration(s.draw.Int64N(int64(longestFault-time.Second)))
}

// letStand has a fault end after a while.
func (s *soak) letStand(name string, d time.Duration, end func(context.Context) error) {
	s.faults.add(fault{name: name, until: time.Now().Add(d), end: end})
}

// endFaults ends those whose time has come by a moment.
func (s *soak) endFaults(ctx context.Context, by time.Time) error {
	for _, f := range s.faults.take(by) {
		if err := f.end(ctx); err != nil {
			return fmt.Errorf("end %s: %w", f.name, err)
		}
		s.journal.say("%-14s is over", f.name)
	}
	s.faults.disturb()
	return nil
}
