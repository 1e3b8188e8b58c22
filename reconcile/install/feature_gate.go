package install

import (
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// Off says whether the controller's environment switches one of Karpenter's feature gates
// off.
func (s *Step) Off(ctx context.Context, gate string) (bool, error) {
	return s.switches(ctx, gate, false)
}

// On says whether it switches one on.
func (s *Step) On(ctx context.Context, gate string) (bool, error) {
	return s.switches(ctx, gate, true)
}

// switches says whether the controller's environment sets a feature gate to a value.
func (s *Step) switches(ctx context.Context, gate string, to bool) (bool, error) {
	if s.Sync.Status.Karpenter == nil {
		return false, nil
	}
	deployments, err := s.View.Controllers(ctx, s.Sync.Status.Karpenter.Namespace)
	if err != nil {
		return false, err
	}
	for i := range deployments {
		containers, err := s.View.Containers(ctx, &deployments[i])
		if err != nil {
			return false, err
		}
		if on, known := upgrade.FeatureGate(containers, gate); known && on == to {
			return true, nil
		}
	}
	return false, nil
}
