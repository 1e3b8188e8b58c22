package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// nodeClaimCRD is the kind that definitions turn into. Git never has it.
const nodeClaimCRD = "nodeclaims.karpenter.sh"

// installCharts brings the first two Stages: the CRD chart, and once every CRD
// is Established the main chart, and sees whether its rollout is complete.
func (p *pass) installCharts(ctx context.Context) error {
	// Without charts there is nothing to install from: what is there stays.
	managed := p.karpenter.Management == render.Managed && p.charts != nil
	if p.sync.Status.Karpenter == nil {
		// Written before it is done: the next pass installs.
		p.fix()
		p.waitFor("the first install", "what it fixes is written down before it begins")
		p.wakeNow()
		return nil
	}
	identity, err := p.installIdentity()
	if err != nil {
		return err
	}
	standing, err := p.standing(ctx)
	if err != nil {
		return err
	}
	known := !managed || p.installedAs(identity, standing)
	if !known {
		if _, err := p.ensure(ctx, charts.CRDChart, p.Install.EnsureCRDs); err != nil {
			return err
		}
	}
	if p.stages.crds, err = p.crdsEstablished(ctx); err != nil || !p.stages.crds.Ready {
		return err
	}
	if !known {
		changed, err := p.ensure(ctx, charts.ControllerChart, p.Install.EnsureController)
		if err != nil {
			return err
		}
		p.memory.installed, p.memory.standing = identity, standing
		p.sync.Status.Karpenter.CRDDigest, p.sync.Status.Karpenter.Digest = p.charts.CRDDigest, p.charts.Digest
		if changed {
			// The cache still has the rollout of before.
			p.stages.controller.Message = "deployment/karpenter: its rollout begins"
			p.wakeAt(p.now.Add(soon))
			return nil
		}
	}
	p.stages.controller, err = p.controllerRolledOut(ctx)
	return err
}

// ensure brings one chart, and says so where that changed anything.
func (p *pass) ensure(ctx context.Context, chart string, bring func(context.Context, *charts.Charts, charts.Installation) (charts.Result, error)) (changed bool, err error) {
	result, err := bring(ctx, p.charts, p.installation())
	if err != nil {
		return false, err
	}
	switch {
	case result.Step == charts.Repair:
		p.memory.repairedAt = p.now
		p.warn("ChartRepaired", fmt.Sprintf("chart %s %s is installed anew (revision %d): somebody deleted or changed %s", chart, p.charts.Version, result.Revision, strings.Join(result.Moved, ", ")))
	case result.Changed:
		p.event("ChartInstalled", fmt.Sprintf("chart %s %s is installed (revision %d)", chart, p.charts.Version, result.Revision))
	}
	return result.Changed, nil
}

func (p *pass) installation() charts.Installation {
	return charts.Installation{
		Namespace: p.karpenter.Namespace,
		Cluster:   p.karpenter.Cluster.Name,
		Region:    p.karpenter.Cluster.Region,
		Values:    p.karpenter.Values,
	}
}

// installIdentity is equal for two passes that would install the same.
func (p *pass) installIdentity() (string, error) {
	if p.charts == nil {
		return "", nil
	}
	raw, err := json.Marshal([]any{p.charts.CRDDigest, p.charts.Digest, p.installation()})
	if err != nil {
		return "", fmt.Errorf("encode the charts' values: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

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
	for i := range deployments {
		deployment := &deployments[i]
		if observe.Alive(deployment) {
			p.stages.controllerAlive = true
		}
		if ready := observe.RolledOut(deployment); !ready.Ready {
			return ready, nil
		}
		if ready := p.ofTheChart(deployment); !ready.Ready {
			return ready, nil
		}
	}
	return observe.Readiness{Ready: true}, nil
}

// ofTheChart says whether a Deployment is that of the version in Git. With
// management External there is no version in Git.
func (p *pass) ofTheChart(deployment *appsv1.Deployment) observe.Readiness {
	if p.karpenter == nil || p.karpenter.Management == render.External {
		return observe.Readiness{Ready: true}
	}
	want := charts.ControllerChart + "-" + strings.ReplaceAll(p.karpenter.Version, "+", "_")
	if is := deployment.Labels["helm.sh/chart"]; is != want {
		return observe.Readiness{Message: fmt.Sprintf("deployment/%s is of chart %q, and the version in Git is %s", deployment.Name, is, p.karpenter.Version)}
	}
	return observe.Readiness{Ready: true}
}
