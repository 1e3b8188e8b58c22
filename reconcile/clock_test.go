package reconcile

import "time"

// clock is a time that a test sets.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time { return c.at }

func (c *clock) forward(by time.Duration) { c.at = c.at.Add(by) }
