package install

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// installCRDs installs the CRD chart. Established is what the cache has: a CRD that
// was written just now is looked at again when its watch tells.
func (s *Step) installCRDs(ctx context.Context, seen *upgrade.Seen) (*v1alpha1.ReleaseStatus, error) {
	if kept, err := s.newerCRDs(ctx, seen); kept != nil || err != nil {
		return kept, err
	}
	result, err := s.Helm.EnsureCRDs(ctx, s.Charts, s.installation())
	if err != nil {
		return nil, err
	}
	s.reportInstalled(charts.CRDChart, result)
	if result.Changed {
		s.View.Changed()
		seen.Established, err = s.View.Established(ctx)
	}
	return s.releaseStatus(result, s.Charts.CRDDigest, s.k().CRDs), err
}

// newerCRDs are CRDs of a newer version than the one in Git whose release is gone: they stay as they
// are, because CRDs never go back. Nil where there is a release, or where a CRD is missing.
func (s *Step) newerCRDs(ctx context.Context, seen *upgrade.Seen) (*v1alpha1.ReleaseStatus, error) {
	k := s.k()
	if !upgrade.CRDsAhead(k, s.Charts.Version) || !seen.Established.Ready {
		return nil, nil
	}
	state, err := s.Helm.State(ctx, s.Karpenter.Namespace)
	if err != nil || state.CRDs.Status != release.Absent {
		return nil, err
	}
	kept := *k.CRDs
	if kept.Revision > 0 {
		s.Warn(v1alpha1.ReasonReleaseLost, fmt.Sprintf("helm release %[1]s was uninstalled by hand; its CRDs are of %[2]s, and chart %[1]s %[3]s is not installed over them, because CRDs never go back: the release comes again with version %[2]s or a newer one in Git", charts.CRDChart, kept.Version, s.Charts.Version))
	}
	kept.Revision = 0
	return &kept, nil
}

// installController installs the main chart.
func (s *Step) installController(ctx context.Context, seen *upgrade.Seen) (*v1alpha1.ReleaseStatus, error) {
	result, err := s.Helm.EnsureController(ctx, s.Charts, s.installation())
	if err != nil {
		return nil, err
	}
	s.reportInstalled(charts.ControllerChart, result)
	if result.Changed {
		s.View.Changed()
		seen.Rollout = observe.Readiness{Message: "deployment/karpenter: its rollout begins"}
	}
	return s.releaseStatus(result, s.Charts.Digest, s.k().Controller), nil
}

// findEarlier finds the release of the main chart before the one that is installed.
func (s *Step) findEarlier(ctx context.Context) (*v1alpha1.ReleaseStatus, error) {
	found, err := s.Helm.Earlier(ctx, s.k().Namespace)
	if err != nil || found.Revision == 0 {
		return nil, err
	}
	return &v1alpha1.ReleaseStatus{Revision: int32(found.Revision), Version: found.Version}, nil
}

// rollBack brings the main chart as it was.
func (s *Step) rollBack(ctx context.Context, revision int32, seen *upgrade.Seen) (*v1alpha1.ReleaseStatus, error) {
	result, err := s.Helm.RollBack(ctx, s.installation(), int(revision))
	if err != nil {
		return nil, err
	}
	if seen.Claims, err = s.View.Claims(ctx); err != nil {
		return nil, err
	}
	k := s.k()
	if result.Changed {
		s.View.Changed()
		seen.Rollout = observe.Readiness{Message: "deployment/karpenter: its rollout begins"}
		s.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonChartRolledBack, fmt.Sprintf("chart %s goes back to %s (revision %d): %s", charts.ControllerChart, k.Version, result.Revision, k.Target.Message))
	}
	status := *k.Controller
	status.Revision = int32(result.Revision)
	return &status, nil
}

// releaseStatus is a release after a step. Its digest is known where its version
// is that of the charts, or has not changed.
func (s *Step) releaseStatus(result release.Result, digest string, before *v1alpha1.ReleaseStatus) *v1alpha1.ReleaseStatus {
	status := &v1alpha1.ReleaseStatus{Revision: int32(result.Revision), Version: result.Version}
	switch {
	case result.Version == s.Charts.Version:
		status.Digest = digest
	case before != nil && before.Version == result.Version:
		status.Digest = before.Digest
	}
	return status
}

// reportInstalled says what was done with a chart, where that changed anything.
func (s *Step) reportInstalled(chart string, result release.Result) {
	s.noteFight(result)
	switch {
	case s.reinstalled(chart, result):
		s.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonChartRepaired, fmt.Sprintf("helm release %s was uninstalled by hand: chart %s %s is installed again (revision %d)", chart, chart, result.Version, result.Revision))
	case result.Step == release.Repair:
		s.Memory.repairedAt = s.Now
		s.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonChartRepaired, fmt.Sprintf("chart %s %s is reinstalled (revision %d): %s", chart, result.Version, result.Revision, survey.Drifts(result.Drifted)))
	case result.Step == release.Adopt:
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonChartAdopted, fmt.Sprintf("adopted existing Helm release %s: upgraded to chart %s (revision %d)", chart, result.Version, result.Revision))
	case result.Changed:
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonChartInstalled, fmt.Sprintf("chart %s %s is installed (revision %d)", chart, result.Version, result.Revision))
	}
}
