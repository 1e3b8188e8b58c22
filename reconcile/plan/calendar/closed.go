package calendar

import (
	"fmt"
	"slices"
	"time"
)

// Closed is why no node may be removed or replaced at a time. The zero value is that it may.
type Closed struct {
	// By is the field that closes it; empty if it is open.
	By string
	// Reason is that of a freeze.
	Reason string
	// Until is when it is open next; zero if that is not within the Horizon.
	Until time.Time
}

// String says it in words that do not change by themselves; empty if it is open.
func (c Closed) String() string {
	if c.By == "" {
		return ""
	}
	why := c.By
	if c.Reason != "" {
		why += ": " + c.Reason
	}
	if c.Until.IsZero() {
		return fmt.Sprintf("no node is removed or replaced within a year (%s)", why)
	}
	return fmt.Sprintf("no node is removed or replaced before %s (%s)", c.Until.UTC().Format("2006-01-02 15:04 UTC"), why)
}

// At reports whether nodes may be removed or replaced at a time, and when next where they may not.
func (c Calendar) At(now time.Time) Closed {
	closed := c.closedBy(now)
	if closed.By == "" {
		return closed
	}
	closed.Until = c.opens(now)
	return closed
}

// closedBy is what closes it at a time.
func (c Calendar) closedBy(t time.Time) Closed {
	if f := c.frozen(t); f != nil {
		return Closed{By: "spec.guard.freeze", Reason: f.reason}
	}
	if len(c.windows) == 0 || slices.ContainsFunc(c.windows, func(w window) bool { return w.open(t) }) {
		return Closed{}
	}
	return Closed{By: "spec.guard.windows"}
}

// open reports whether a window is open at a time: up to its duration after a time of its schedule, as
// Karpenter's budgets are active (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go IsActive).
func (w window) open(t time.Time) bool {
	hit := w.schedule.Next(t.Add(-w.duration))
	return !hit.IsZero() && !hit.After(t)
}

// frozen is the freeze that a time is in, the one that lasts longest; nil if it is in none.
func (c Calendar) frozen(t time.Time) *freeze {
	var found *freeze
	for i := range c.freezes {
		f := &c.freezes[i]
		if !t.Before(f.from) && t.Before(f.before) && (found == nil || f.before.After(found.before)) {
			found = f
		}
	}
	return found
}

// opens is the next time at which it is open; zero if there is none within the Horizon.
func (c Calendar) opens(from time.Time) time.Time {
	for t := from; t.Before(from.Add(Horizon)); {
		if f := c.frozen(t); f != nil {
			t = f.before
			continue
		}
		if c.closedBy(t).By == "" {
			return t
		}
		if t = earliest(c.windows, func(w window) time.Time { return w.schedule.Next(t) }); t.IsZero() {
			break
		}
	}
	return time.Time{}
}

// Closes is when it closes next, where it is open at a time; zero if that is not before another.
func (c Calendar) Closes(from, before time.Time) time.Time {
	at := from
	for range most {
		if at = c.turns(at); at.IsZero() || !at.Before(before) {
			break
		}
		if c.closedBy(at).By != "" {
			return at
		}
	}
	return time.Time{}
}

// turns is the next time after one at which it may close, or be closed by something else: a window
// begins or ends, or a freeze does. Zero is that there is none.
func (c Calendar) turns(t time.Time) time.Time {
	next := earliest(c.windows, func(w window) time.Time {
		begins, ends := w.schedule.Next(t), w.schedule.Next(t.Add(-w.duration)).Add(w.duration)
		if begins.Before(ends) {
			return begins
		}
		return ends
	})
	for _, f := range c.freezes {
		for _, turn := range []time.Time{f.from, f.before} {
			if turn.After(t) && (next.IsZero() || turn.Before(next)) {
				next = turn
			}
		}
	}
	return next
}

// earliest is the earliest time of some windows; zero if there is none.
func earliest(windows []window, of func(window) time.Time) time.Time {
	var first time.Time
	for _, w := range windows {
		if t := of(w); !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// Period is a time in which it is open, or closed by one thing.
type Period struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Open bool      `json:"open"`
	// By is the field that closes it, and Reason that of a freeze, or who has declared an emergency.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// most is how many turns are looked at: those of a window that begins each minute, for 90 days.
const most = 300_000

// Periods are those from a time to another, one after the other. The first and the last are cut off.
func (c Calendar) Periods(from, to time.Time) []Period {
	var found []Period
	at := from
	for range most {
		if !at.Before(to) {
			break
		}
		until := c.turns(at)
		if until.IsZero() || until.After(to) {
			until = to
		}
		closed := c.closedBy(at)
		p := Period{From: at, To: until, Open: closed.By == "", By: closed.By, Reason: closed.Reason}
		if last := len(found) - 1; last >= 0 && same(found[last], p) {
			found[last].To = until
		} else {
			found = append(found, p)
		}
		at = until
	}
	return found
}

// same reports whether one period goes on in the next.
func same(a, b Period) bool {
	return a.Open == b.Open && a.By == b.By && a.Reason == b.Reason
}
