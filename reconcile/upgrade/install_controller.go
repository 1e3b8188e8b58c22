package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/render"
)

// installCRDs installs the CRD chart. Established is the state in the cache: a CRD that was just written is checked
// again after its watch event.
func (s *Step) installCRDs(ctx context.Context, seen *Seen) (*v1alpha1.ReleaseStatus, error) {
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
	return s.releaseStatus(result, s.Charts.CRDDigest, s.karpenterStatus().CRDs), err
}

// newerCRDs returns the CRDs of a version newer than the one in Git whose release is gone: they stay as they are,
// because CRDs are never downgraded. It returns nil if there is a release, or a CRD is missing.
func (s *Step) newerCRDs(ctx context.Context, seen *Seen) (*v1alpha1.ReleaseStatus, error) {
	k := s.karpenterStatus()
	if !CRDsAhead(k, s.Charts.Version) || !seen.Established.Ready {
		return nil, nil
	}
	state, err := s.Helm.State(ctx, s.Karpenter.Namespace)
	if err != nil || state.CRDs.Status != release.Absent {
		return nil, err
	}
	kept := *k.CRDs
	if kept.Revision > 0 {
		s.Warn(v1alpha1.ReasonReleaseLost, fmt.Sprintf("Helm release %[1]s was uninstalled by hand; its CRDs have version %[2]s, and chart %[1]s %[3]s is not installed over them, because CRDs are never downgraded: plumbline reinstalls the release once Git has version %[2]s or newer", charts.CRDChart, kept.Version, s.Charts.Version))
	}
	kept.Revision = 0
	return &kept, nil
}

// installController installs the main chart.
func (s *Step) installController(ctx context.Context, seen *Seen) (*v1alpha1.ReleaseStatus, error) {
	result, err := s.Helm.EnsureController(ctx, s.Charts, s.installation())
	if err != nil {
		return nil, err
	}
	s.reportInstalled(charts.ControllerChart, result)
	if result.Changed {
		s.View.Changed()
		seen.Rollout = cluster.Readiness{Message: "deployment/karpenter: rollout started"}
	}
	return s.releaseStatus(result, s.Charts.Digest, s.karpenterStatus().Controller), nil
}

// findEarlier finds the release of the main chart before the installed one.
func (s *Step) findEarlier(ctx context.Context) (*v1alpha1.ReleaseStatus, error) {
	found, err := s.Helm.Earlier(ctx, s.karpenterStatus().Namespace)
	if err != nil || found.Revision == 0 {
		return nil, err
	}
	return &v1alpha1.ReleaseStatus{Revision: int32(found.Revision), Version: found.Version}, nil
}

// rollBack rolls the main chart back to a revision.
func (s *Step) rollBack(ctx context.Context, revision int32, seen *Seen) (*v1alpha1.ReleaseStatus, error) {
	result, err := s.Helm.RollBack(ctx, s.installation(), int(revision))
	if err != nil {
		return nil, err
	}
	if seen.Claims, err = s.View.Claims(ctx); err != nil {
		return nil, err
	}
	k := s.karpenterStatus()
	if result.Changed {
		s.View.Changed()
		seen.Rollout = cluster.Readiness{Message: "deployment/karpenter: rollout started"}
		s.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonChartRolledBack,
			fmt.Sprintf("chart %s is rolled back to %s (revision %d): %s", charts.ControllerChart, k.Version, result.Revision, k.Target.Message))
	}
	status := *k.Controller
	status.Revision = int32(result.Revision)
	return &status, nil
}

// releaseStatus returns the status of a release after a step. Its digest is known if its version is that of the charts,
// or has not changed.
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

// reportInstalled reports what was done with a chart, if that changed anything.
func (s *Step) reportInstalled(chart string, result release.Result) {
	s.notePaused(result)
	switch {
	case s.reinstalled(chart, result):
		s.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonChartRepaired, fmt.Sprintf("Helm release %s was uninstalled by hand: chart %s %s is reinstalled (revision %d)", chart, chart, result.Version, result.Revision))
	case result.Step == release.Repair:
		s.Memory.repairedAt = s.Now
		s.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonChartRepaired,
			fmt.Sprintf("chart %s %s is reinstalled (revision %d): %s", chart, result.Version, result.Revision, survey.Drifts(result.Drifted)))
	case result.Step == release.Adopt:
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonChartAdopted,
			fmt.Sprintf("adopted existing Helm release %s: upgraded to chart %s (revision %d)", chart, result.Version, result.Revision))
	case result.Changed:
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonChartInstalled,
			fmt.Sprintf("chart %s %s is installed (revision %d)", chart, result.Version, result.Revision))
	}
}

// rolledOut reports whether the rollout of the chart's version is complete.
func (s *Step) rolledOut(ctx context.Context) (cluster.Readiness, error) {
	deployments, err := s.View.Controllers(ctx, s.karpenterStatus().Namespace)
	if err != nil {
		return cluster.Readiness{}, err
	}
	if len(deployments) == 0 {
		return cluster.Readiness{Message: "no Deployment labelled app.kubernetes.io/name=karpenter in " + s.karpenterStatus().Namespace}, nil
	}
	whole := cluster.Readiness{Ready: true}
	for i := range deployments {
		if cluster.Alive(&deployments[i]) {
			s.out.Alive = true
		}
		up, err := s.isUp(ctx, &deployments[i])
		if err != nil || !up.Ready {
			return up, err
		}
		whole.Message = cmp.Or(whole.Message, up.Message)
	}
	return whole, nil
}

// isUp reports whether a Deployment of the controller is complete and has the version. If the release was in force
// before, one replica that leads is enough; the message then names a missing one. plumbline does not read the leader
// election of another tool's controller.
func (s *Step) isUp(ctx context.Context, deployment *appsv1.Deployment) (cluster.Readiness, error) {
	complete, coming := cluster.RolledOut(deployment), comingUp(s.karpenterStatus())
	managed := s.Karpenter != nil && s.Karpenter.Management == render.Managed
	enough := managed && !coming && cluster.Partly(deployment)
	if !complete.Ready && !enough {
		return complete, nil
	}
	if is, err := s.hasTargetVersion(ctx, deployment); err != nil || !is.Ready {
		return is, err
	}
	switch {
	case !complete.Ready:
		return OneLeads(ctx, s.View.Uncached, deployment)
	case coming:
		return Leads(ctx, s.View.Uncached, deployment)
	}
	return complete, nil
}

// comingUp reports whether a controller was just installed, and has not led yet.
func comingUp(k *v1alpha1.KarpenterStatus) bool {
	return k.Target != nil && (k.Target.Step == v1alpha1.ChartRollingOut || k.Target.Step == v1alpha1.ChartRollingBack)
}

// hasTargetVersion reports whether a Deployment has the version in Git or, if that was rolled back, the version in
// force.
func (s *Step) hasTargetVersion(ctx context.Context, deployment *appsv1.Deployment) (cluster.Readiness, error) {
	if s.Karpenter == nil || s.Karpenter.Management == render.External {
		return s.hasVersionInGit(ctx, deployment)
	}
	version := cmp.Or(s.Serving, s.Karpenter.Version)
	k := s.karpenterStatus()
	if k.Target != nil && k.Target.Step == v1alpha1.ChartRollingBack {
		version = k.Version
	}
	want := charts.ControllerChart + "-" + strings.ReplaceAll(version, "+", "_")
	if is := deployment.Labels[survey.ChartLabel]; is != want {
		return cluster.Readiness{Message: fmt.Sprintf("deployment/%s has chart %q, but must have %s", deployment.Name, is, want)}, nil
	}
	return cluster.Readiness{Ready: true}, nil
}

// readPods reads the pods of an overdue controller: whether one that leads is enough, and if not, why they do not
// become ready.
func (s *Step) readPods(ctx context.Context, seen *Seen) error {
	seen.Cause = cmp.Or(seen.Rollout.Message, "its rollout is not complete")
	deployments, err := s.View.Controllers(ctx, s.karpenterStatus().Namespace)
	if err != nil || len(deployments) == 0 {
		return err
	}
	deployment := &deployments[0]
	is, err := s.hasTargetVersion(ctx, deployment)
	if err != nil {
		return err
	}
	if is.Ready {
		if one, err := OneLeads(ctx, s.View.Uncached, deployment); err != nil || one.Ready {
			seen.Rollout = one
			return err
		}
	}
	seen.Cause = Cause(ctx, s.View.Uncached, s.Logs, deployment, seen.Rollout.Message, s.Hide)
	return nil
}

// notePaused records the objects of a chart that another client changes repeatedly. They are left as they are, and
// everything else continues.
func (s *Step) notePaused(result release.Result) {
	if len(result.Paused) == 0 {
		return
	}
	s.out.Paused = append(s.out.Paused, result.Paused...)
	s.Memory.repairedAt = s.Now // checked no more often than it would be corrected
}
