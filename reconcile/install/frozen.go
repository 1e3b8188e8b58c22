package install

import (
	"context"
	"fmt"
	"slices"
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
	if k.Target != nil && upgrade.UnderWay(*k.Target) {
		return nil // half a change is nothing to stay with: what corrects it goes on
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
	if err != nil || len(deployments) == 0 {
		return err == nil, err
	}
	if slices.ContainsFunc(deployments, func(d appsv1.Deployment) bool { return observe.Alive(&d) }) {
		s.Memory.downSince = time.Time{}
		return false, nil
	}
	since := unavailableSince(deployments)
	if since.IsZero() {
		// With one replica and maxUnavailable 1, a Deployment without a pod is available.
		if s.Memory.downSince.IsZero() {
			s.Memory.downSince = s.Now
		}
		since = s.Memory.downSince
	}
	until := since.Add(s.rolloutTimeout())
	if s.Now.Before(until) {
		s.WakeBy(until)
		return false, nil
	}
	return true, nil
}

// unavailableSince is since when all Deployments have had too few replicas; zero where one does not say.
func unavailableSince(deployments []appsv1.Deployment) (last time.Time) {
	for i := range deployments {
		conditions := deployments[i].Status.Conditions
		at := slices.IndexFunc(conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionFalse
		})
		if at < 0 {
			return time.Time{}
		}
		if since := conditions[at].LastTransitionTime.Time; since.After(last) {
			last = since
		}
	}
	return last
}
