// Package inbound limits the requests that strangers may send to a server before it processes them: how many per
// second, in total and from each address. It uses nothing of a request but its source address.
package inbound

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxAddresses limits how many remote addresses are remembered.
const maxAddresses = 1024

// Rate is how many requests per second are accepted, and how many at once after a pause.
type Rate struct {
	PerSecond rate.Limit
	Burst     int
}

// Limits limits the accepted requests, in total and for each remote address.
type Limits struct {
	now    func() time.Time
	sender Rate

	mu        sync.Mutex
	total     *rate.Limiter
	addresses map[netip.Prefix]*rate.Limiter
}

// New returns limits for all requests, and for those of one sender.
func New(now func() time.Time, total, sender Rate) *Limits {
	return &Limits{now: now, sender: sender, total: rate.NewLimiter(total.PerSecond, total.Burst), addresses: map[netip.Prefix]*rate.Limiter{}}
}

// Wait returns how long a request from an address must wait; 0 if it is accepted.
func (l *Limits) Wait(from netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	// The address comes first: a sender with too many requests takes nothing from others.
	if wait := take(l.of(network(from), now), now); wait > 0 {
		return wait
	}
	return take(l.total, now)
}

// of returns the limiter of a network. Limiters that were not used for a while are as good as new; they are dropped
// when there are too many.
func (l *Limits) of(from netip.Prefix, now time.Time) *rate.Limiter {
	if known, ok := l.addresses[from]; ok {
		return known
	}
	if len(l.addresses) >= maxAddresses {
		for address, limiter := range l.addresses {
			if limiter.TokensAt(now) >= float64(l.sender.Burst) {
				delete(l.addresses, address)
			}
		}
	}
	if len(l.addresses) >= maxAddresses {
		clear(l.addresses) // the total still applies
	}
	fresh := rate.NewLimiter(l.sender.PerSecond, l.sender.Burst)
	l.addresses[from] = fresh
	return fresh
}

// take takes one request from a limiter, or returns how long to wait for one.
func take(limiter *rate.Limiter, now time.Time) time.Duration {
	reserved := limiter.ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait > 0 {
		reserved.CancelAt(now)
	}
	return wait
}

// Peer returns the address at the other end of a request's connection; the zero address if it is invalid.
func Peer(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap()
}

// network returns what counts as one sender: an IPv4 address, or the /64 of an IPv6 one, because a sender usually has
// all addresses of a /64.
func network(from netip.Addr) netip.Prefix {
	bits := 32
	if from.Is6() {
		bits = 64
	}
	prefix, err := from.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // all addresses that cannot be distinguished count as one
	}
	return prefix
}

// Handler responds with 429 to requests beyond the limits, and passes on the others. from returns the address of a
// request.
func (l *Limits) Handler(from func(*http.Request) netip.Addr, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := l.Wait(from(r)); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}
