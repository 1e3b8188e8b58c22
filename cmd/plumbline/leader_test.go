package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// fakeLease is a lease as the API server would tell of it.
type fakeLease struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
	err    error
	asked  int
}

func (f *fakeLease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	f.asked++
	return &f.record, nil, f.err
}
func (f *fakeLease) Identity() string { return "us" }
func (f *fakeLease) Describe() string { return "plumbline-system/plumbline" }

func lease(holder string, renewed time.Time) *fakeLease {
	return &fakeLease{record: resourcelock.LeaderElectionRecord{
		HolderIdentity: holder, LeaseDurationSeconds: 10, RenewTime: metav1.NewTime(renewed),
	}}
}

func TestHeld(t *testing.T) {
	now := time.Now()
	cases := map[string]struct {
		lease *fakeLease
		ours  bool
	}{
		"ours":            {lease("us", now.Add(-9*time.Second)), true},
		"another's":       {lease("them", now), false},
		"run out":         {lease("us", now.Add(-11*time.Second)), false},
		"cannot be asked": {&fakeLease{err: errors.New("no route")}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := held(t.Context(), c.lease, now); (err == nil) != c.ours {
				t.Errorf("held: %v, want ours %t", err, c.ours)
			}
		})
	}
}

func TestStillLeaderTrustsOnlyAGoodAnswer(t *testing.T) {
	good := lease("us", time.Now())
	ask := stillLeader(good)
	for range 3 {
		if err := ask(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if good.asked != 1 {
		t.Errorf("asked %d times within the time a good answer holds, want once", good.asked)
	}
	bad := lease("them", time.Now())
	ask = stillLeader(bad)
	for range 2 {
		if err := ask(t.Context()); err == nil {
			t.Fatal("another's lease counts as ours")
		}
	}
	if bad.asked != 2 {
		t.Errorf("asked %d times after bad answers, want each time", bad.asked)
	}
}

// roundTripper counts what is sent.
type roundTripper struct{ sent []string }

func (r *roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	r.sent = append(r.sent, request.Method)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestFence: without the lease everything can be read and nothing written, and
// nobody is asked about the lease for a read.
func TestFence(t *testing.T) {
	lost := errors.New("the lease is another's")
	cases := map[string]struct {
		method string
		leader error
		sent   bool
		asks   int
	}{
		"a read":                   {http.MethodGet, nil, true, 0},
		"a read without the lease": {http.MethodGet, lost, true, 0},
		"a patch":                  {http.MethodPatch, nil, true, 1},
		"a patch without":          {http.MethodPatch, lost, false, 1},
		"a delete without":         {http.MethodDelete, lost, false, 1},
		"a create without":         {http.MethodPost, lost, false, 1},
		"an update without":        {http.MethodPut, lost, false, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			asked, next := 0, &roundTripper{}
			f := &fence{next: next, stillLeader: func(context.Context) error {
				asked++
				return c.leader
			}}
			body := &closed{}
			request, err := http.NewRequestWithContext(t.Context(), c.method, "https://10.0.0.1/api", body)
			if err != nil {
				t.Fatal(err)
			}
			response, err := f.RoundTrip(request)
			if err == nil {
				_ = response.Body.Close()
			}
			if sent := len(next.sent) == 1; sent != c.sent || asked != c.asks || (err == nil) != c.sent {
				t.Errorf("sent %t, want %t; asked %d times, want %d; %v", sent, c.sent, asked, c.asks, err)
			}
			if !c.sent && (!errors.Is(err, lost) || !body.done) {
				t.Errorf("refused with %v, body closed: %t", err, body.done)
			}
		})
	}
}

// closed is a body that knows whether it was closed.
type closed struct{ done bool }

func (*closed) Read([]byte) (int, error) { return 0, io.EOF }
func (c *closed) Close() error {
	c.done = true
	return nil
}
