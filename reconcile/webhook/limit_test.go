package webhook

import (
	"fmt"
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
		if l.wait(from(i)) == 0 {
			in++
		}
	}
	return in
}

func from(address string) func(int) string { return func(int) string { return address } }

func TestLimits(t *testing.T) {
	clock := newStill()
	l := newLimits(clock.now)
	if in := let(l, 200, from("192.0.2.1:1000")); in != senderBurst {
		t.Errorf("%d requests of one address get in, want %d", in, senderBurst)
	}
	if wait := l.wait("192.0.2.1:2000"); wait != 200*time.Millisecond {
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
		if network(same[0]) != network(same[1]) {
			t.Errorf("%s and %s are two", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{"192.0.2.1:1", "192.0.2.2:1"}, {"[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1"}} {
		if network(other[0]) == network(other[1]) {
			t.Errorf("%s and %s are one", other[0], other[1])
		}
	}
}

func TestLimitsForget(t *testing.T) {
	clock := newStill()
	l := newLimits(clock.now)
	for i := range 5 * maxAddresses {
		l.wait(fmt.Sprintf("10.%d.%d.1:1", i/256, i%256))
		if len(l.addresses) > maxAddresses {
			t.Fatalf("%d addresses are remembered", len(l.addresses))
		}
		clock.at = clock.at.Add(time.Millisecond)
	}
}
