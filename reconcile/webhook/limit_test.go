package webhook

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

// still is a clock that stands.
type still struct{ at time.Time }

func (s *still) now() time.Time { return s.at }

func newStill() *still { return &still{time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)} }

// let counts how many of n requests get in.
func let(l *limits, n int, from func(int) string) int {
	in := 0
	for i := range n {
		if l.wait(address(from(i))) == 0 {
			in++
		}
	}
	return in
}

// address is where a request from a peer comes from.
func address(peer string) netip.Addr {
	return origins{}.of(&http.Request{RemoteAddr: peer})
}

func from(address string) func(int) string { return func(int) string { return address } }

func TestLimits(t *testing.T) {
	clock := newStill()
	l := newLimits(clock.now, origins{})
	if in := let(l, 200, from("192.0.2.1:1000")); in != senderBurst {
		t.Errorf("%d requests of one address get in, want %d", in, senderBurst)
	}
	if wait := l.wait(address("192.0.2.1:2000")); wait != 200*time.Millisecond {
		t.Errorf("another port of it waits %s", wait)
	}
	if in := let(l, 200, from("192.0.2.2:1000")); in != senderBurst {
		t.Errorf("%d requests of another address get in, want %d: the first takes nothing from it", in, senderBurst)
	}
	if in := let(l, 200, from("192.0.2.3:1000")); in != 0 {
		t.Errorf("%d more get in, want none: %d are all", in, totalBurst)
	}
	clock.at = clock.at.Add(time.Second)
	if in := let(l, 200, from("192.0.2.1:1000")); in != int(senderRate) {
		t.Errorf("%d get in after a second, want %d", in, int(senderRate))
	}
	if in := let(l, 200, from("192.0.2.9:1000")); in != int(totalRate-senderRate) {
		t.Errorf("%d get in after a second, want %d", in, int(totalRate-senderRate))
	}
}

func TestWhoIsOneSender(t *testing.T) {
	for _, same := range [][2]string{
		{"192.0.2.1:1", "192.0.2.1:2"}, {"192.0.2.1:1", "[::ffff:192.0.2.1]:2"}, {"[2001:db8::1]:1", "[2001:db8::2]:1"}, {"nonsense", "@"},
	} {
		if network(address(same[0])) != network(address(same[1])) {
			t.Errorf("%s and %s are two", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{"192.0.2.1:1", "192.0.2.2:1"}, {"[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1"}} {
		if network(address(other[0])) == network(address(other[1])) {
			t.Errorf("%s and %s are one", other[0], other[1])
		}
	}
}

// TestSendersBehindAProxy: each is counted by itself, and none gets more by what
// it says of where it comes from.
func TestSendersBehindAProxy(t *testing.T) {
	const proxy, stranger = "10.0.0.7:4000", "192.0.2.9:4000"
	clock := newStill()
	handler := New(Options{Now: clock.now, TrustedProxies: networks(t, "10.0.0.0/8")})
	let := func(peer, forwarded string) int {
		in := 0
		for i := range senderBurst + 10 {
			r := httptest.NewRequest(http.MethodPost, Path, nil)
			r.RemoteAddr = peer
			r.Header.Set("X-Forwarded-For", strings.ReplaceAll(forwarded, "%d", strconv.Itoa(i)))
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != http.StatusTooManyRequests {
				in++
			}
		}
		clock.at = clock.at.Add(5 * time.Second) // the total is full again, a sender's is not
		return in
	}
	if in := let(proxy, "198.51.100.%d, 192.0.2.1"); in != senderBurst {
		t.Errorf("%d requests of a forger behind the proxy get in, want %d", in, senderBurst)
	}
	if in := let(proxy, "192.0.2.2"); in != senderBurst {
		t.Errorf("%d requests of another behind it get in, want %d", in, senderBurst)
	}
	if in := let(stranger, "198.51.100.%d"); in != senderBurst {
		t.Errorf("%d requests of a forger without the proxy get in, want %d", in, senderBurst)
	}
}

func TestLimitsForget(t *testing.T) {
	clock := newStill()
	l := newLimits(clock.now, origins{})
	for i := range 5 * maxAddresses {
		l.wait(address(fmt.Sprintf("10.%d.%d.1:1", i/256, i%256)))
		if len(l.addresses) > maxAddresses {
			t.Fatalf("%d addresses are remembered", len(l.addresses))
		}
		clock.at = clock.at.Add(time.Millisecond)
	}
}
