package reconcile

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

// bringCRDs brings the CRD chart. Established is what the cache has: a CRD that
// was written just now is looked at again when its watch tells.
func (p *pass) bringCRDs(ctx context.Context, seen *upgrade.Seen) (*v1alpha1.ReleaseStatus, error) {
	result, err := p.Install.EnsureCRDs(ctx, p.charts, p.installation())
	if err != nil {
		return nil, err
	}
	p.tellBrought(charts.CRDChart, result)
	if result.Changed {
		seen.Established, err = p.crdsEstablished(ctx)
	}
	return p.releaseStatus(result, p.charts.CRDDigest, p.sync.Status.Karpenter.CRDs), err
}

// bringController brings the main chart.
func (p *pass) bringController(ctx context.Context, seen *upgrade.Seen) (*v1alpha1.ReleaseStatus, error) {
	result, err := p.Install.EnsureController(ctx, p.charts, p.installation())
	if err != nil {
		return nil, err
	}
	p.tellBrought(charts.ControllerChart, result)
	if result.Changed {
		seen.Rollout = observe.Readiness{Message: "deployment/karpenter: its rollout begins"}
	}
	return p.releaseStatus(result, p.charts.Digest, p.sync.Status.Karpenter.Controller), nil
}

// rollBack brings the main chart as it was.
func (p *pass) rollBack(ctx context.Context, revision int32, seen *upgrade.Seen) (*v1alpha1.ReleaseStatus, error) {
	result, err := p.Install.RollBack(ctx, p.installation(), int(revision))
	if err != nil {
		return nil, err
	}
	if seen.Claims, err = p.claims(ctx); err != nil {
		return nil, err
	}
	k := p.sync.Status.Karpenter
	if result.Changed {
		seen.Rollout = observe.Readiness{Message: "deployment/karpenter: its rollout begins"}
		p.Wrote(corev1.EventTypeWarning, "ChartRolledBack", fmt.Sprintf("chart %s goes back to %s (revision %d): %s", charts.ControllerChart, k.Version, result.Revision, k.Target.Message))
	}
	status := *k.Controller
	status.Revision = int32(result.Revision)
	return &status, nil
}

// releaseStatus is a release after a step. Its digest is known where its version
// is that of the charts, or has not changed.
func (p *pass) releaseStatus(result release.Result, digest string, before *v1alpha1.ReleaseStatus) *v1alpha1.ReleaseStatus {
	status := &v1alpha1.ReleaseStatus{Revision: int32(result.Revision), Version: result.Version}
	switch {
	case result.Version == p.charts.Version:
		status.Digest = digest
	case before != nil && before.Version == result.Version:
		status.Digest = before.Digest
	}
	return status
}

// tellBrought says what was done with a chart, where that changed anything.
func (p *pass) tellBrought(chart string, result release.Result) {
	p.noteFight(result)
	switch {
	case p.reinstalled(chart, result):
		p.Wrote(corev1.EventTypeWarning, "ChartRepaired", fmt.Sprintf("helm release %s was uninstalled by hand: chart %s %s is installed again (revision %d)", chart, chart, result.Version, result.Revision))
	case result.Step == release.Repair:
		p.memory.repairedAt = p.now
		p.Wrote(corev1.EventTypeWarning, "ChartRepaired", fmt.Sprintf("chart %s %s is installed anew (revision %d): %s", chart, result.Version, result.Revision, survey.Drifts(result.Drifted)))
	case result.Step == release.Adopt:
		p.Wrote(corev1.EventTypeNormal, "ChartAdopted", fmt.Sprintf("helm release %s of somebody else's is taken over: chart %s is installed over it (revision %d)", chart, result.Version, result.Revision))
	case result.Changed:
		p.Wrote(corev1.EventTypeNormal, "ChartInstalled", fmt.Sprintf("chart %s %s is installed (revision %d)", chart, result.Version, result.Revision))
	}
}
