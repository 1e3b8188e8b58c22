package install

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// frozenError is a change of the charts that waits for a window of spec.guard.
type frozenError struct{ change, until string }

// Error says what waits, and until when.
func (e *frozenError) Error() string { return e.change + "; this waits: " + e.until }

// frozen says why a change of the charts waits for a window of spec.guard; nil where it does not. A new
// controller may find every node drifted. What brings a controller back does not wait: an install, the
// way back to what is in force, the rest of a change that has begun, and any change while no
// controller is at work.
func (s *Step) frozen(ctx context.Context, identity string) error {
	k := s.k()
	if s.Frozen.Message == "" || identity == k.Identity || !upgrade.Begins(*k, identity) {
		return nil
	}
	if down, err := s.down(ctx); err != nil || down {
		return err
	}
	change, err := s.Change()
	if err != nil {
		return err
	}
	frozen := &frozenError{change: change, until: s.Frozen.Message}
	s.Wait("charts", fmt.Sprintf("%s; definitions are still applied under Karpenter %s, which is in force", frozen, k.Version))
	if until := s.Frozen.Until; !until.IsZero() {
		s.WakeBy(until)
	}
	return fault.Waits(frozen)
}

// down says that no controller has been at work for as long as a new one may take to come up.
func (s *Step) down(ctx context.Context) (bool, error) {
	deployments, err := s.View.Controllers(ctx, s.k().Namespace)
	if err != nil {
		return false, err
	}
	for i := range deployments {
		d := &deployments[i]
		if observe.Alive(d) {
			return false, nil
		}
		if until := unavailableSince(d).Add(s.rolloutTimeout()); s.Now.Before(until) {
			s.WakeBy(until)
			return false, nil
		}
	}
	return true, nil
}

// unavailableSince is since when a Deployment has too few replicas; zero where it does not say.
func unavailableSince(d *appsv1.Deployment) time.Time {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionFalse {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
