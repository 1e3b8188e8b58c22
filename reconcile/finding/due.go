package finding

import "time"

// Due reports whether the interval since the last time has passed. A last time in the future means that the clock was
// set back.
func Due(now, last time.Time, every time.Duration) bool {
	return now.Before(last) || !now.Before(last.Add(every))
}

// Soon is how long a superseded reconcile waits for the cache to catch up.
const Soon = 100 * time.Millisecond
