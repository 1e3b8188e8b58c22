package teardown

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAnOverdueRemovalDoesNotSpin: a time that has passed is no time to wake at.
func TestAnOverdueRemovalDoesNotSpin(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		askedAt time.Time
		phase   v1alpha1.RemovalPhase
		cloud   bool
		stalled bool
		want    time.Time
	}{
		"overdue, and the pass failed":      {phase: v1alpha1.RemovalDraining},
		"EC2 may be asked, and was not":     {phase: v1alpha1.RemovalVerifyingCloud, cloud: true, stalled: true, askedAt: now.Add(-time.Hour), want: now.Add(10 * time.Second)},
		"EC2 was asked just now":            {phase: v1alpha1.RemovalVerifyingCloud, cloud: true, stalled: true, askedAt: now, want: now.Add(10 * time.Second)},
		"EC2 was asked, and is asked again": {phase: v1alpha1.RemovalVerifyingCloud, cloud: true, stalled: true, askedAt: now.Add(-4 * time.Second), want: now.Add(6 * time.Second)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := &drive{Pass: Pass{Now: now, AskEvery: 10 * time.Second, StallAfter: time.Minute}, result: Result{AskedAt: c.askedAt}}
			it := &item{known: true, after: v1alpha1.Removal{Phase: c.phase, LastProgress: metav1.NewTime(now.Add(-time.Hour))}}
			it.seen.Cloud.Open = c.cloud
			if c.stalled {
				at := metav1.NewTime(now)
				it.after.Stalled = &at
			}
			if d.wake(it); !d.result.Again.Equal(c.want) {
				t.Errorf("wakes at %s, want %s", d.result.Again, c.want)
			}
		})
	}
}

// TestAFailedPassOverAnOverdueRemoval wakes nobody: the error is tried again at its own
// pace.
func TestAFailedPassOverAnOverdueRemoval(t *testing.T) {
	s := newStage(t)
	overdue := v1alpha1.Removal{Kind: render.NodePool, Name: "batch", UID: "batch-uid", Phase: v1alpha1.RemovalDraining, LastProgress: metav1.NewTime(s.now.Add(-time.Hour))}
	w := World{Cache: s.client, Live: unreadable{s.client}, Writer: s.client, Home: Home{Reader: unreadable{s.client}, Writer: s.client}, StillLeader: func(context.Context) error { return nil }}
	result, err := Drive(t.Context(), w, Pass{
		Now: s.now, Sync: s.sync, StallAfter: time.Minute, AskEvery: time.Second,
		Arrivals: func(v1alpha1.Removal) Gate { return Gate{Open: true} },
	}, []v1alpha1.Removal{overdue})
	if !errors.Is(err, errUnreadable) {
		t.Fatal(err)
	}
	if !result.Again.IsZero() {
		t.Errorf("wakes at %s", result.Again)
	}
}

var errUnreadable = errors.New("the API server does not answer")

// unreadable is a reader that gets no answer.
type unreadable struct{ client.Reader }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errUnreadable
}
