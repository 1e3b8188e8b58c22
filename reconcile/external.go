package reconcile

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// theirs says who brings what is not there with management External.
const theirs = "management is External, so that is for whoever installs Karpenter"

// external is what was found of the CRDs that somebody else has brought: of which
// CRDs, beside which chart, when, and what of them is not as in the chart.
type external struct {
	standing, digest string
	at               time.Time
	unlike           string
}

// awaitCharts looks whether somebody else has brought the charts; where Git has a
// version, whether they are of that one. Definitions that are for it wait for it.
func (p *pass) awaitCharts(ctx context.Context, seen upgrade.Seen) error {
	p.stages.crds, p.stages.controller = seen.Established, seen.Rollout
	if !seen.Established.Ready {
		p.stages.crds.Message += "; " + theirs
		return nil
	}
	if p.karpenter.Version == "" {
		return nil
	}
	unlike, err := p.unlikeTheChart(ctx)
	if err != nil {
		return err
	}
	if unlike != "" {
		p.stages.crds = observe.Readiness{Message: fmt.Sprintf("%s of Karpenter %s; %s", unlike, p.karpenter.Version, theirs)}
		return nil
	}
	k := p.sync.Status.Karpenter
	if p.stages.controller.Ready {
		k.Version = p.karpenter.Version
	}
	p.stages.changing = k.Version != p.karpenter.Version
	return nil
}

// unlikeTheChart says which CRD is not that of the version in Git; empty where all
// are. CRDs name no version, so that what they say is compared, and again when a
// watch tells of one. Without the chart they are taken for right.
func (p *pass) unlikeTheChart(ctx context.Context) (string, error) {
	if p.charts == nil {
		return "", nil
	}
	standing, err := p.standing(ctx)
	if err != nil {
		return "", err
	}
	last := &p.memory.external
	known := last.standing == standing && last.digest == p.charts.CRDDigest
	// Not each of them is watched: what lacks is looked for.
	if known && last.unlike == "" {
		return "", nil
	}
	if known && !due(p.now, last.at, p.retryInterval()) {
		p.WakeBy(last.at.Add(p.retryInterval()))
		return last.unlike, nil
	}
	wanted, err := p.charts.CRDs(ctx)
	if err != nil {
		return "", err
	}
	live, err := p.liveCRDs(ctx)
	if err != nil {
		return "", err
	}
	*last = external{standing: standing, digest: p.charts.CRDDigest, at: p.now, unlike: karpenter.Unlike(live, wanted)}
	if last.unlike != "" {
		p.WakeBy(p.now.Add(p.retryInterval()))
	}
	return last.unlike, nil
}

// ofTheAwaited says whether a Deployment is of the version that Git waits for.
func (p *pass) ofTheAwaited(ctx context.Context, deployment *appsv1.Deployment) (observe.Readiness, error) {
	if p.karpenter == nil || p.karpenter.Version == "" {
		return observe.Readiness{Ready: true}, nil
	}
	version, err := p.versionOf(ctx, deployment)
	if err != nil || version == p.karpenter.Version {
		return observe.Readiness{Ready: err == nil}, err
	}
	return observe.Readiness{Message: fmt.Sprintf("deployment/%s is of Karpenter %s, and plumbline.yaml waits for %s; %s", deployment.Name, version, p.karpenter.Version, theirs)}, nil
}

// versionOf is the version of Karpenter that a Deployment runs: by the labels of the
// chart, or where somebody has taken those off, by the tag of its image, which the
// cache does not keep.
func (p *pass) versionOf(ctx context.Context, deployment *appsv1.Deployment) (string, error) {
	if version := deployment.Labels["app.kubernetes.io/version"]; version != "" {
		return version, nil
	}
	if version, ok := survey.VersionIn(deployment.Labels[survey.ChartLabel]); ok {
		return version, nil
	}
	whole := &appsv1.Deployment{}
	if err := p.Uncached.Get(ctx, client.ObjectKeyFromObject(deployment), whole); err != nil {
		return "", fmt.Errorf("read deployment/%s: %w", deployment.Name, err)
	}
	return upgrade.Tag(whole.Spec.Template.Spec.Containers), nil
}
