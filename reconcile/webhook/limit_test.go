package webhook

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// still is a clock that does not advance.
type still struct{ at time.Time }

func (s *still) now() time.Time { return s.at }

func newStill() *still { return &still{time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)} }

// TestSendersBehindAProxy: each is counted separately, and none gets more requests by claiming another address.
func TestSendersBehindAProxy(t *testing.T) {
	const proxy, stranger = "10.0.0.7:4000", "192.0.2.9:4000"
	clock := newStill()
	handler := New(Options{Now: clock.now, TrustedProxies: networks(t, "10.0.0.0/8")})
	let := func(peer, forwarded string) int {
		in := 0
		for i := range requestsOfOne.Burst + 10 {
			r := httptest.NewRequest(http.MethodPost, Path, nil)
			r.RemoteAddr = peer
			r.Header.Set("X-Forwarded-For", strings.ReplaceAll(forwarded, "%d", strconv.Itoa(i)))
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != http.StatusTooManyRequests {
				in++
			}
		}
		clock.at = clock.at.Add(5 * time.Second) // the total limit has recovered, a sender's has not
		return in
	}
	if in := let(proxy, "198.51.100.%d, 192.0.2.1"); in != requestsOfOne.Burst {
		t.Errorf("%d requests of a forger behind the proxy get in, want %d", in, requestsOfOne.Burst)
	}
	if in := let(proxy, "192.0.2.2"); in != requestsOfOne.Burst {
		t.Errorf("%d requests of another behind it get in, want %d", in, requestsOfOne.Burst)
	}
	if in := let(stranger, "198.51.100.%d"); in != requestsOfOne.Burst {
		t.Errorf("%d requests of a forger without the proxy get in, want %d", in, requestsOfOne.Burst)
	}
}
