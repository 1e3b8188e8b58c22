package fetch

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// away is a host that can be unavailable.
type away struct {
	host
	err error
}

func (a *away) Fetch(ctx context.Context, req source.Request) (*render.Snapshot, time.Time, error) {
	if a.err != nil {
		return nil, req.NotBefore, a.err
	}
	return a.host.Fetch(ctx, req)
}

// TestReadSince: a step needs Git to be read since a time. The next reconcile reads it, whatever the interval, and
// retries at the retry interval if that fails.
func TestReadSince(t *testing.T) {
	at := &away{host: host{files: fstest.MapFS{}}}
	sync := &v1alpha1.NodeSync{Spec: v1alpha1.NodeSyncSpec{
		Interval: metav1.Duration{Duration: time.Hour}, RetryInterval: &metav1.Duration{Duration: time.Minute},
		Source: v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git"}},
	}}
	now, memory := time.Unix(1000, 0), &Memory{}
	sync.CreationTimestamp = metav1.NewTime(now)
	pass := func(after time.Duration) *Step {
		now = now.Add(after)
		s := &Step{Tools: Tools{Source: at}, Sync: sync.DeepCopy(), Memory: memory, Now: now}
		_, _ = s.Fetch(t.Context())
		return s
	}
	expect := func(s *Step, since time.Time, read bool, why string, wakes bool) {
		t.Helper()
		gotRead, gotWhy, wake := s.ReadSince(since)
		if gotRead != read || gotWhy != why || wake.IsZero() == wakes {
			t.Errorf("read %t, why %q, wake %v; want %t, %q, %t", gotRead, gotWhy, wake, read, why, wakes)
		}
	}
	start := now
	pass(0)
	since := start.Add(30 * time.Second)
	expect(pass(time.Second), start, true, "", false)
	expect(pass(29*time.Second), since, false, "", true)
	expect(pass(0), since, true, "", false)
	if got := len(at.requests); got != 2 {
		t.Errorf("%d fetches, want 2", got)
	}

	at.err = errors.New("no route to host")
	since = now.Add(time.Second)
	expect(pass(time.Second), since, false, "", true)
	expect(pass(0), since, false, "no route to host", false)
	expect(pass(59*time.Second), since, false, "no route to host", false)
	at.err = nil
	expect(pass(time.Second), since, true, "", false)
}
