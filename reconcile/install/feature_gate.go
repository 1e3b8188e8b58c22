package install

import (
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// Off says whether the controller's environment switches one of Karpenter's feature gates
// off.
func (s *Step) Off(ctx context.Context, gate string) (bool, error) {
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
		if on, known := upgrade.FeatureGate(containers, gate); known && !on {
			return true, nil
		}
	}
	return false, nil
}
