package main

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// TestALeaseThatGoesWithItsNamespace stays with the one who held it when it went, and with
// nobody who may have lost it before.
func TestALeaseThatGoesWithItsNamespace(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	notFound, forbidden := apierrors.NewNotFound(leases, leaseName), apierrors.NewForbidden(leases, leaseName, nil)
	cases := map[string]struct {
		holder string
		// idle is how long the lease was not looked at before it was gone.
		idle  time.Duration
		goes  bool
		err   error
		leads bool
	}{
		"it was ours":                   {holder: "us", idle: time.Second, goes: true, err: notFound, leads: true},
		"the right to read it has gone": {holder: "us", idle: time.Second, goes: true, err: forbidden, leads: true},
		"the namespace stays":           {holder: "us", idle: time.Second, err: notFound},
		"it was another's":              {holder: "them", idle: time.Second, goes: true, err: notFound},
		"it had run out":                {holder: "us", idle: 10 * time.Second, goes: true, err: notFound},
		"it cannot be asked":            {holder: "us", idle: time.Second, goes: true, err: apierrors.NewServiceUnavailable("no")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			inner := lease(c.holder, now)
			l := &lastLease{Interface: inner, seen: &leaseSeen{}, now: func() time.Time { return now }, namespaceGoes: func(context.Context) (bool, error) { return c.goes, nil }}
			if _, _, err := l.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
			now, inner.err = now.Add(c.idle), c.err
			if err := held(t.Context(), l, now); (err == nil) != c.leads {
				t.Fatalf("held: %v, want ours %t", err, c.leads)
			}
			if !c.leads {
				return
			}
			// It is renewed for as long as the process runs, and given up by nobody.
			now = now.Add(time.Hour)
			if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "us"}); err != nil {
				t.Errorf("renewed: %v", err)
			}
			if err := held(t.Context(), l, now); err != nil {
				t.Errorf("an hour later: %v", err)
			}
		})
	}
}

// TestWhoLeads: the page of another replica names it.
func TestWhoLeads(t *testing.T) {
	seen := &leaseSeen{}
	for _, holder := range []string{"", "us", "them"} {
		seen.note(resourcelock.LeaderElectionRecord{HolderIdentity: holder}, "us")
		if got := seen.leader(); got != holder {
			t.Errorf("%q leads, want %q", got, holder)
		}
	}
}
