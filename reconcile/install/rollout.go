package install

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// rolledOut says whether the rollout of the chart's version is complete.
func (s *Step) rolledOut(ctx context.Context) (observe.Readiness, error) {
	deployments, err := s.View.Controllers(ctx, s.k().Namespace)
	if err != nil {
		return observe.Readiness{}, err
	}
	if len(deployments) == 0 {
		return observe.Readiness{Message: "no Deployment labelled app.kubernetes.io/name=karpenter in " + s.k().Namespace}, nil
	}
	whole := observe.Readiness{Ready: true}
	for i := range deployments {
		if observe.Alive(&deployments[i]) {
			s.out.Alive = true
		}
		up, err := s.up(ctx, &deployments[i])
		if err != nil || !up.Ready {
			return up, err
		}
		whole.Message = cmp.Or(whole.Message, up.Message)
	}
	return whole, nil
}

// up says whether a Deployment of the controller is complete and of the version. Of
// one that has been in force before, one replica that leads is enough; the message
// names one that is missing then. Elections of another tool's controller are not for
// plumbline to read.
func (s *Step) up(ctx context.Context, deployment *appsv1.Deployment) (observe.Readiness, error) {
	complete, coming := observe.RolledOut(deployment), comingUp(s.k())
	managed := s.Karpenter != nil && s.Karpenter.Management == render.Managed
	enough := managed && !coming && observe.Partly(deployment)
	if !complete.Ready && !enough {
		return complete, nil
	}
	if is, err := s.ofTheVersion(ctx, deployment); err != nil || !is.Ready {
		return is, err
	}
	switch {
	case !complete.Ready:
		return upgrade.OneLeads(ctx, s.View.Uncached, deployment)
	case coming:
		return upgrade.Leads(ctx, s.View.Uncached, deployment)
	}
	return complete, nil
}

// comingUp says that a controller was installed a moment ago, and has not led yet.
func comingUp(k *v1alpha1.KarpenterStatus) bool {
	return k.Target != nil && (k.Target.Step == v1alpha1.ChartRollingOut || k.Target.Step == v1alpha1.ChartRollingBack)
}

// ofTheVersion says whether a Deployment is that of the version in Git, or of the
// version in force where the one in Git was rolled back.
func (s *Step) ofTheVersion(ctx context.Context, deployment *appsv1.Deployment) (observe.Readiness, error) {
	if s.Karpenter == nil || s.Karpenter.Management == render.External {
		return s.ofTheAwaited(ctx, deployment)
	}
	version := cmp.Or(s.Serving, s.Karpenter.Version)
	k := s.k()
	if k.Target != nil && k.Target.Step == v1alpha1.ChartRollingBack {
		version = k.Version
	}
	want := charts.ControllerChart + "-" + strings.ReplaceAll(version, "+", "_")
	if is := deployment.Labels[survey.ChartLabel]; is != want {
		return observe.Readiness{Message: fmt.Sprintf("deployment/%s is of chart %q, and has to be of %s", deployment.Name, is, want)}, nil
	}
	return observe.Readiness{Ready: true}, nil
}

// askPods asks the pods of a controller that is overdue: whether one that leads is
// enough, and if not why they do not come up.
func (s *Step) askPods(ctx context.Context, seen *upgrade.Seen) error {
	seen.Cause = cmp.Or(seen.Rollout.Message, "its rollout is not complete")
	deployments, err := s.View.Controllers(ctx, s.k().Namespace)
	if err != nil || len(deployments) == 0 {
		return err
	}
	deployment := &deployments[0]
	is, err := s.ofTheVersion(ctx, deployment)
	if err != nil {
		return err
	}
	if is.Ready {
		if one, err := upgrade.OneLeads(ctx, s.View.Uncached, deployment); err != nil || one.Ready {
			seen.Rollout = one
			return err
		}
	}
	seen.Cause = upgrade.Cause(ctx, s.View.Uncached, s.Logs, deployment, seen.Rollout.Message, s.Hide)
	return nil
}
