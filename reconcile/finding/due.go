package finding

import "time"

// Due reports whether it is time again for what was done last at a time. A last time
// that lies ahead is one of before the clock was put back.
func Due(now, last time.Time, every time.Duration) bool {
	return now.Before(last) || !now.Before(last.Add(every))
}

// Soon is how long a reconcile that was overtaken waits for the cache to catch up.
const Soon = 100 * time.Millisecond
