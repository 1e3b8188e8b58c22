package reconcile

import (
	"context"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// checkOwners looks for what somebody else has installed of Karpenter, and holds
// that it may be taken over. What is taken over is in force from then on: a change
// begins at its version, with every gate, and may go back to its release.
func (p *pass) checkOwners(ctx context.Context) error {
	found, err := p.Install.Survey(ctx, p.karpenter.Namespace)
	if err != nil {
		return err
	}
	if err := found.Check(p.karpenter.Namespace, p.charts.Version, p.karpenter.Adopt); err != nil {
		return err
	}
	k := p.sync.Status.Karpenter
	if k.Identity != "" {
		return nil
	}
	if err := p.forgetWhatIsGone(ctx); err != nil {
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

// forgetWhatIsGone has a change begin anew where the controller that it was to take
// over is there no more.
func (p *pass) forgetWhatIsGone(ctx context.Context) error {
	deployments, err := p.controllers(ctx)
	if err == nil && len(deployments) == 0 {
		k := p.sync.Status.Karpenter
		k.Version, k.Controller = "", nil
	}
	return err
}
