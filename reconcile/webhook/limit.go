package webhook

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How many requests are looked at: a busy host sends a few in a second, and one
// for each reference of a push.
const (
	totalRate, totalBurst   = rate.Limit(20), 100
	senderRate, senderBurst = rate.Limit(5), 50
	// maxAddresses bounds what is remembered of remote addresses.
	maxAddresses = 1024
)

// limits lets so many requests in, in total and from each remote address.
type limits struct {
	now     func() time.Time
	origins origins

	mu        sync.Mutex
	total     *rate.Limiter
	addresses map[netip.Prefix]*rate.Limiter
}

func newLimits(now func() time.Time, from origins) *limits {
	return &limits{now: now, origins: from, total: rate.NewLimiter(totalRate, totalBurst), addresses: map[netip.Prefix]*rate.Limiter{}}
}

// wait says how long a request from an address has to wait; 0 lets it in.
func (l *limits) wait(from netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	// The address comes first: one that asks too much takes nothing from others.
	if wait := take(l.of(network(from), now), now); wait > 0 {
		return wait
	}
	return take(l.total, now)
}

// of is the limiter of a network. Those that have not asked for a while are as
// good as new, and are forgotten when there are too many.
func (l *limits) of(from netip.Prefix, now time.Time) *rate.Limiter {
	if known, ok := l.addresses[from]; ok {
		return known
	}
	if len(l.addresses) >= maxAddresses {
		for address, limiter := range l.addresses {
			if limiter.TokensAt(now) >= senderBurst {
				delete(l.addresses, address)
			}
		}
	}
	if len(l.addresses) >= maxAddresses {
		clear(l.addresses) // the total still holds
	}
	fresh := rate.NewLimiter(senderRate, senderBurst)
	l.addresses[from] = fresh
	return fresh
}

// take takes one request from a limiter, or says when there will be one.
func take(limiter *rate.Limiter, now time.Time) time.Duration {
	reserved := limiter.ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait > 0 {
		reserved.CancelAt(now)
	}
	return wait
}

// network is what counts as one sender: an IPv4 address, or the /64 of an IPv6
// one, as a sender with one address of a /64 has them all.
func network(from netip.Addr) netip.Prefix {
	bits := 32
	if from.Is6() {
		bits = 64
	}
	prefix, err := from.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // all that cannot be told apart are one
	}
	return prefix
}

// limited answers 429 to requests beyond the limits.
func (l *limits) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := l.wait(l.origins.of(r)); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}
