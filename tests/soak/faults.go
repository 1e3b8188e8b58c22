package soak

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// longestFault is the maximum duration of a fault: longer than a leader's lease.
const longestFault = 20 * time.Second

// fault is an active fault.
type fault struct {
	name  string
	until time.Time
	end   func(context.Context) error
}

// faults are the active ones.
type faults struct {
	mu       sync.Mutex
	standing []fault
	changed  time.Time // when one last started or ended
}

// add adds an active fault.
func (f *faults) add(one fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.standing = append(f.standing, one)
	f.changed = time.Now()
}

// take removes and returns those that are due by a time.
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

// disturb records an instantaneous fault.
func (f *faults) disturb() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = time.Now()
}

// quietSince reports whether no fault is active, and since when.
func (f *faults) quietSince() (since time.Time, quiet bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed, len(f.standing) == 0
}

// next returns when the next fault ends.
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

// stands reports whether one of these is active.
func (f *faults) stands(names ...string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.standing, func(one fault) bool { return slices.Contains(names, one.name) })
}

// lasting draws the duration of a fault.
func (s *soak) lasting() time.Duration {
	return time.Second + time.Duration(s.draw.Int64N(int64(longestFault-time.Second)))
}

// letStand ends a fault after a while.
func (s *soak) letStand(name string, d time.Duration, end func(context.Context) error) {
	s.faults.add(fault{name: name, until: time.Now().Add(d), end: end})
}

// endFaults ends those that are due by a time.
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
