package awssim

import "time"

// bucket limits the rate of calls: it holds a second's worth, and at least one.
type bucket struct {
	tokens float64
	filled time.Time
}

// take reports whether one more call is allowed.
func (b *bucket) take(rate float64, now time.Time) bool {
	most := max(1, rate)
	if b.filled.IsZero() {
		b.tokens = most
	} else {
		b.tokens = min(most, b.tokens+rate*now.Sub(b.filled).Seconds())
	}
	b.filled = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
