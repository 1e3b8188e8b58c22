package upgrade

import (
	"errors"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

// TestAnotherHelmClientIsWaitedFor checks that it is waited for in short intervals, because nothing reports when it has
// finished.
func TestAnotherHelmClientIsWaitedFor(t *testing.T) {
	b := newBed(t, installtest.Installed()...)
	b.helm.Err = &release.BusyError{Release: charts.ControllerChart, Revision: 1, Until: b.now.Add(10 * time.Minute)}
	s := b.step()
	identity, err := s.Identity()
	if err != nil {
		t.Fatal(err)
	}
	*s.Sync.Status.Karpenter = v1alpha1.KarpenterStatus{Namespace: "kube-system", Version: "1.14.1", Identity: identity, Controller: &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.14.1"}}
	if _, err := s.Run(t.Context()); !errors.As(err, new(*release.BusyError)) {
		t.Fatalf("Run() = %v", err)
	}
	if want := b.now.Add(busyEvery); !s.WakeAt.Equal(want) {
		t.Errorf("looked at again at %s, want %s", s.WakeAt, want)
	}
}
