package main

import (
	"context"
	"errors"
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
