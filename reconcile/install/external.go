package install

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// external is what was found of the CRDs that another tool has installed: of which
// CRDs, beside which chart, when, and what of them is not as in the chart.
type external struct {
	fingerprint, digest string
	at                  time.Time
	unlike              string
}

// awaitCharts looks whether another tool has installed the charts; where Git has a
// version, whether they are of that one. Definitions that are for it wait for it.
func (s *Step) awaitCharts(ctx context.Context, seen upgrade.Seen) error {
	s.out.CRDs, s.out.Controller = seen.Established, seen.Rollout
	if !seen.Established.Ready {
		s.out.CRDs.Message += "; " + desired.Theirs
		return nil
	}
	if s.Karpenter.Version == "" {
		return nil
	}
	unlike, err := s.unlikeTheChart(ctx)
	if err != nil {
		return err
	}
	if unlike != "" {
		s.out.CRDs = observe.Readiness{Message: fmt.Sprintf("%s of Karpenter %s; %s", unlike, s.Karpenter.Version, desired.Theirs)}
		return nil
	}
	k := s.k()
	if s.out.Controller.Ready {
		k.Version = s.Karpenter.Version
	}
	s.out.Changing = k.Version != s.Karpenter.Version
	return nil
}

// unlikeTheChart says which CRD is not that of the version in Git; empty where all
// are. CRDs name no version, so that what they say is compared, and again when a
// watch tells of one. Without the chart they are taken for right.
func (s *Step) unlikeTheChart(ctx context.Context) (string, error) {
	if s.Charts == nil {
		return "", nil
	}
	fingerprint, err := s.View.CRDFingerprint(ctx)
	if err != nil {
		return "", err
	}
	last := &s.Memory.external
	known := last.fingerprint == fingerprint && last.digest == s.Charts.CRDDigest
	// Not each of them is watched: what lacks is looked for.
	if known && last.unlike == "" {
		return "", nil
	}
	if known && !finding.Due(s.Now, last.at, s.Retry) {
		s.WakeBy(last.at.Add(s.Retry))
		return last.unlike, nil
	}
	wanted, err := s.Charts.CRDs(ctx)
	if err != nil {
		return "", err
	}
	live, err := s.liveCRDs(ctx)
	if err != nil {
		return "", err
	}
	*last = external{fingerprint: fingerprint, digest: s.Charts.CRDDigest, at: s.Now, unlike: karpenter.Unlike(live, wanted)}
	if last.unlike != "" {
		s.WakeBy(s.Now.Add(s.Retry))
	}
	return last.unlike, nil
}

// ofTheAwaited says whether a Deployment is of the version that Git waits for.
func (s *Step) ofTheAwaited(ctx context.Context, deployment *appsv1.Deployment) (observe.Readiness, error) {
	if s.Karpenter == nil || s.Karpenter.Version == "" {
		return observe.Readiness{Ready: true}, nil
	}
	version, err := s.versionOf(ctx, deployment)
	if err != nil || version == s.Karpenter.Version {
		return observe.Readiness{Ready: err == nil}, err
	}
	return observe.Readiness{Message: fmt.Sprintf("deployment/%s is of Karpenter %s, and plumbline.yaml waits for %s; %s", deployment.Name, version, s.Karpenter.Version, desired.Theirs)}, nil
}

// versionOf is the version of Karpenter that a Deployment runs: by the labels of the
// chart, or where another client has taken those off, by the tag of its image; "unknown" where
// neither tells.
func (s *Step) versionOf(ctx context.Context, deployment *appsv1.Deployment) (string, error) {
	if version := deployment.Labels["app.kubernetes.io/version"]; version != "" {
		return version, nil
	}
	if version, ok := survey.VersionIn(deployment.Labels[survey.ChartLabel]); ok {
		return version, nil
	}
	containers, err := s.View.Containers(ctx, deployment)
	if err != nil {
		return "", err
	}
	return upgrade.Tag(containers), nil
}
