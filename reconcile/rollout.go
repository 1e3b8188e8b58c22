package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// nodeClaimCRD is the kind that definitions turn into. Git never has it.
const nodeClaimCRD = "nodeclaims.karpenter.sh"

// crdsEstablished says whether the CRDs of all kinds that are ours are served.
func (r *Reconciler) crdsEstablished(ctx context.Context) (observe.Readiness, error) {
	for _, name := range crdNames() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := r.Client.Get(ctx, client.ObjectKey{Name: name}, crd)
		if apierrors.IsNotFound(err) {
			return observe.Readiness{Message: "crd " + name + " is not there yet"}, nil
		}
		if err != nil {
			return observe.Readiness{}, fmt.Errorf("read crd %s: %w", name, err)
		}
		if ready := observe.Established(crd); !ready.Ready {
			return ready, nil
		}
	}
	return observe.Readiness{Ready: true}, nil
}

// missingCRDs are those that are not there, seen past the cache.
func (r *Reconciler) missingCRDs(ctx context.Context) ([]string, error) {
	var missing []string
	for _, name := range crdNames() {
		err := r.Uncached.Get(ctx, client.ObjectKey{Name: name}, &apiextensionsv1.CustomResourceDefinition{})
		if apierrors.IsNotFound(err) {
			missing = append(missing, name)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read crd %s: %w", name, err)
		}
	}
	return missing, nil
}

// controllerRolledOut says whether the rollout of the chart's version is
// complete.
func (p *pass) controllerRolledOut(ctx context.Context) (observe.Readiness, error) {
	deployments, err := p.controllers(ctx)
	if err != nil {
		return observe.Readiness{}, err
	}
	if len(deployments) == 0 {
		return observe.Readiness{Message: "no Deployment labelled app.kubernetes.io/name=karpenter in " + p.sync.Status.Karpenter.Namespace}, nil
	}
	whole := observe.Readiness{Ready: true}
	for i := range deployments {
		if observe.Alive(&deployments[i]) {
			p.stages.controllerAlive = true
		}
		up, err := p.up(ctx, &deployments[i])
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
func (p *pass) up(ctx context.Context, deployment *appsv1.Deployment) (observe.Readiness, error) {
	complete, coming := observe.RolledOut(deployment), comingUp(p.sync.Status.Karpenter)
	managed := p.karpenter != nil && p.karpenter.Management == render.Managed
	enough := managed && !coming && observe.Partly(deployment)
	if !complete.Ready && !enough {
		return complete, nil
	}
	if is, err := p.ofTheVersion(ctx, deployment); err != nil || !is.Ready {
		return is, err
	}
	switch {
	case !complete.Ready:
		return upgrade.OneLeads(ctx, p.Uncached, deployment)
	case coming:
		return upgrade.Leads(ctx, p.Uncached, deployment)
	}
	return complete, nil
}

// comingUp says that a controller was brought a moment ago, and has not led yet.
func comingUp(k *v1alpha1.KarpenterStatus) bool {
	return k.Target != nil && (k.Target.Step == v1alpha1.ChartRollingOut || k.Target.Step == v1alpha1.ChartRollingBack)
}

// ofTheVersion says whether a Deployment is that of the version in Git, or of the
// version in force where the one in Git was rolled back.
func (p *pass) ofTheVersion(ctx context.Context, deployment *appsv1.Deployment) (observe.Readiness, error) {
	if p.karpenter == nil || p.karpenter.Management == render.External {
		return p.ofTheAwaited(ctx, deployment)
	}
	version := cmp.Or(p.serving, p.karpenter.Version)
	k := p.sync.Status.Karpenter
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
func (p *pass) askPods(ctx context.Context, seen *upgrade.Seen) error {
	seen.Cause = cmp.Or(seen.Rollout.Message, "its rollout is not complete")
	deployments, err := p.controllers(ctx)
	if err != nil || len(deployments) == 0 {
		return err
	}
	deployment := &deployments[0]
	is, err := p.ofTheVersion(ctx, deployment)
	if err != nil {
		return err
	}
	if is.Ready {
		if one, err := upgrade.OneLeads(ctx, p.Uncached, deployment); err != nil || one.Ready {
			seen.Rollout = one
			return err
		}
	}
	seen.Cause = upgrade.Cause(ctx, p.Uncached, p.Logs, deployment, seen.Rollout.Message, p.memory.hidden.hide)
	return nil
}
