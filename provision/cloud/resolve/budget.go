package resolve

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// EC2 refills what an account may describe in one region with 20 requests a second, after 100 at
// once (https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html), and SSM answers
// 40 a second (https://docs.aws.amazon.com/general/latest/gr/ssm.html). Karpenter needs most of
// that when nodes are many. This is a fortieth of it.
const (
	perSecond = 0.5
	atOnce    = 40
	// reopens is how many questions there are again when the budget opens after it was used up.
	reopens = 20
)

// BusyError says that AWS is not asked now, as it was asked too often.
type BusyError struct {
	Action string
	// Again is when it is asked again.
	Again time.Time
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("AWS is not asked for %s now: asked too often, again at %s", e.Action, e.Again.UTC().Format(time.TimeOnly))
}

// Budget is how many questions may be asked. One that is used up stays closed until there is
// enough of it for several questions. The zero value is full.
type Budget struct {
	mu      sync.Mutex
	limiter *rate.Limiter
	closed  time.Time
}

// Take takes n questions, or says when there are some again.
func (b *Budget) Take(now time.Time, action string, n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limiter == nil {
		b.limiter = rate.NewLimiter(perSecond, atOnce)
	}
	n = min(n, atOnce)
	if !now.Before(b.closed) && b.limiter.AllowN(now, n) {
		return nil
	}
	if !now.Before(b.closed) {
		missing := float64(max(n, reopens)) - b.limiter.TokensAt(now)
		b.closed = now.Add(time.Duration(missing / perSecond * float64(time.Second))).Add(time.Second).Truncate(time.Second)
	}
	return &BusyError{Action: action, Again: b.closed}
}
