package reconcile

import (
	"context"
	"time"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
)

// releasesEvery is the least time between two questions to Helm that no person asked for.
const releasesEvery = time.Minute

// askReleases asks Helm whether both releases are there as plumbline has left them, and
// forgets that they are installed where they are not. Nothing tells of a release: the CRDs
// outlive theirs, by helm.sh/resource-policy, and its Secrets are not watched. It asks when a
// person wants a pass, and once per interval.
func (p *pass) askReleases(ctx context.Context) error {
	every := max(p.sync.Spec.Interval.Duration, releasesEvery)
	if p.memory.installed == "" || !p.insists() && !due(p.now, p.memory.releasesAskedAt, every) {
		return nil
	}
	state, err := p.Install.State(ctx, p.karpenter.Namespace)
	if err != nil {
		return err
	}
	p.memory.releasesAskedAt = p.now
	if !state.CRDs.Intact() || !state.Controller.Intact() {
		p.memory.installed = ""
	}
	return nil
}

// reinstalled says whether a step has installed a release that was there before.
func (p *pass) reinstalled(chart string, result release.Result) bool {
	if result.Step != release.Install || !result.Changed {
		return false
	}
	k := p.sync.Status.Karpenter
	if chart == charts.CRDChart {
		return k.CRDs != nil
	}
	return k.Controller != nil
}
