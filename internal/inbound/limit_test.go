package inbound

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

var total, sender = Rate{PerSecond: 20, Burst: 100}, Rate{PerSecond: 5, Burst: 50}

// still is a stopped clock.
type still struct{ at time.Time }

func (s *still) now() time.Time { return s.at }

func newStill() *still { return &still{time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)} }

// let counts how many of n requests are accepted.
func let(l *Limits, n int, from func(int) string) int {
	in := 0
	for i := range n {
		if l.Wait(address(from(i))) == 0 {
			in++
		}
	}
	return in
}

// address returns the address of a request from a peer.
func address(peer string) netip.Addr {
	return Peer(&http.Request{RemoteAddr: peer})
}

func from(address string) func(int) string { return func(int) string { return address } }

func TestLimits(t *testing.T) {
	clock := newStill()
	l := New(clock.now, total, sender)
	if in := let(l, 200, from("192.0.2.1:1000")); in != sender.Burst {
		t.Errorf("%d requests of one address get in, want %d", in, sender.Burst)
	}
	if wait := l.Wait(address("192.0.2.1:2000")); wait != 200*time.Millisecond {
		t.Errorf("another port of it waits %s", wait)
	}
	if in := let(l, 200, from("192.0.2.2:1000")); in != sender.Burst {
		t.Errorf("%d requests of another address get in, want %d: the first takes nothing from it", in, sender.Burst)
	}
	if in := let(l, 200, from("192.0.2.3:1000")); in != 0 {
		t.Errorf("%d more get in, want none: %d are all", in, total.Burst)
	}
	clock.at = clock.at.Add(time.Second)
	if in := let(l, 200, from("192.0.2.1:1000")); in != int(sender.PerSecond) {
		t.Errorf("%d get in after a second, want %d", in, int(sender.PerSecond))
	}
	if in := let(l, 200, from("192.0.2.9:1000")); in != int(total.PerSecond-sender.PerSecond) {
		t.Errorf("%d get in after a second, want %d", in, int(total.PerSecond-sender.PerSecond))
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

func TestLimitsForget(t *testing.T) {
	clock := newStill()
	l := New(clock.now, total, sender)
	for i := range 5 * maxAddresses {
		l.Wait(address(fmt.Sprintf("10.%d.%d.1:1", i/256, i%256)))
		if len(l.addresses) > maxAddresses {
			t.Fatalf("%d addresses are remembered", len(l.addresses))
		}
		clock.at = clock.at.Add(time.Millisecond)
	}
}
