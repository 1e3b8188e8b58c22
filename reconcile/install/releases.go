package install

import (
	"context"
	"time"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// releasesEvery is the least time between two questions to Helm that no person asked for.
const releasesEvery = time.Minute

// askReleases asks Helm whether both releases are there as plumbline has left them, and
// forgets that they are installed where they are not. Nothing tells of a release: the CRDs
// outlive theirs, by helm.sh/resource-policy, and its Secrets are not watched. It asks when a
// person wants a pass, and once per interval.
func (s *Step) askReleases(ctx context.Context) error {
	every := max(s.Sync.Spec.Interval.Duration, releasesEvery)
	if s.Memory.installed == "" || !s.Insist && !finding.Due(s.Now, s.Memory.releasesAskedAt, every) {
		return nil
	}
	state, err := s.Helm.State(ctx, s.Karpenter.Namespace)
	if err != nil {
		return err
	}
	s.Memory.releasesAskedAt = s.Now
	if !state.CRDs.Intact() || !state.Controller.Intact() {
		s.Memory.installed = ""
	}
	return nil
}

// reinstalled says whether a step has installed a release that was there before.
func (s *Step) reinstalled(chart string, result release.Result) bool {
	if result.Step != release.Install || !result.Changed {
		return false
	}
	k := s.k()
	if chart == charts.CRDChart {
		return k.CRDs != nil
	}
	return k.Controller != nil
}
