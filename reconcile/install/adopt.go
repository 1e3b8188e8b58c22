package install

import (
	"context"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// checkOwners looks for what another tool has installed of Karpenter, and holds
// that it may be adopted. What is adopted is in force from then on: a change
// begins at its version, with every gate, and may go back to its release.
func (s *Step) checkOwners(ctx context.Context) error {
	found, err := s.Helm.Survey(ctx, s.Karpenter.Namespace)
	if err != nil {
		return err
	}
	if err := found.Check(s.Karpenter.Namespace, s.Charts.Version, s.Karpenter.Adopt); err != nil {
		return err
	}
	k := s.k()
	if k.Identity != "" {
		return nil
	}
	if err := s.forgetWhatIsGone(ctx); err != nil {
		return err
	}
	if version := found.Version(k.Namespace); version != "" {
		k.Version = version
	}
	for name, status := range map[string]**v1alpha1.ReleaseStatus{charts.CRDChart: &k.CRDs, charts.ControllerChart: &k.Controller} {
		if release, ok := found.Release(name, k.Namespace); ok {
			*status = &v1alpha1.ReleaseStatus{Revision: int32(release.Revision), Version: release.Version}
		}
	}
	return nil
}

// forgetWhatIsGone has a change begin again where the controller that it was to adopt
// is there no more.
func (s *Step) forgetWhatIsGone(ctx context.Context) error {
	deployments, err := s.View.Controllers(ctx, s.k().Namespace)
	if err == nil && len(deployments) == 0 {
		k := s.k()
		k.Version, k.Controller = "", nil
	}
	return err
}
