package confine

import "time"

const (
	// heavyFrom is from when on an owner is a heavy one: a kustomization of 2,000
	// definitions takes three seconds, a child at its limit thirty.
	heavyFrom = 10 * time.Second
	// easing is how much of the time that passes is taken off what was held: one tenth.
	easing = 10
	// mostHeld bounds what is counted, so that it is gone after twenty minutes.
	mostHeld = 2 * time.Minute
)

// lately is for how long an owner has held a place lately.
type lately struct {
	held time.Duration
	// at is when that was so.
	at time.Time
}

// now is what is left of it.
func (l lately) now(now time.Time) time.Duration {
	return max(0, l.held-max(0, now.Sub(l.at))/easing)
}

// and is what it is after a place was held for so long.
func (l lately) and(held time.Duration, now time.Time) lately {
	return lately{held: min(mostHeld, l.now(now)+max(0, held)), at: now}
}
