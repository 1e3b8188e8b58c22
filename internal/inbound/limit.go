// Package inbound limits the requests that strangers may send to a server before it looks at them: how many in a
// second, in total and from each address. It reads nothing of a request but where it comes from.
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

// maxAddresses bounds what is remembered of remote addresses.
const maxAddresses = 1024

// Rate is how many requests in a second are let in, and how many at once after a rest.
type Rate struct {
	PerSecond rate.Limit
	Burst     int
}

// Limits lets so many requests in, in total and from each remote address.
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

// Wait returns how long a request from an address has to wait; 0 lets it in.
func (l *Limits) Wait(from netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	// The address comes first: one that asks too much takes nothing from others.
	if wait := take(l.of(network(from), now), now); wait > 0 {
		return wait
	}
	return take(l.total, now)
}

// of is the limiter of a network. Those that have sent nothing for a while are as
// good as new, and are forgotten when there are too many.
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
		clear(l.addresses) // the total still holds
	}
	fresh := rate.NewLimiter(l.sender.PerSecond, l.sender.Burst)
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

// Peer is the address at the other end of a request's connection; the zero address if that is none.
func Peer(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap()
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

// Handler answers 429 to requests beyond the limits, and hands the others on. from is where a request comes from.
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
