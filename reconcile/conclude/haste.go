package conclude

import (
	"time"

	"golang.org/x/time/rate"
)

// A pass may ask for the next one at once, and most that do are through with it after
// a few. What asks for it again and again, for whatever reason, gets one each
// hasteEvery after the first hasteBurst.
const (
	hasteEvery = time.Second
	hasteBurst = 20
)

// haste bounds how often passes over one NodeSync follow each other at once. The zero
// value has let none through yet.
type haste struct{ limit *rate.Limiter }

// pace is how long to wait where a pass is wanted after a time: that, or longer where
// too many have been wanted at once.
func (h *haste) pace(now time.Time, wanted time.Duration) time.Duration {
	if wanted >= hasteEvery {
		return wanted
	}
	if h.limit == nil {
		h.limit = rate.NewLimiter(rate.Every(hasteEvery), hasteBurst)
	}
	next := h.limit.ReserveN(now, 1)
	wait := next.DelayFrom(now)
	if wait > hasteEvery {
		next.CancelAt(now) // passes that a watch wakes meanwhile do not add up
		wait = hasteEvery
	}
	return max(wanted, wait, time.Millisecond)
}
