package reconcile

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// sameClusterName refuses a controller that another tool has installed and that runs under
// another cluster's name than the one in Git. EC2 would be asked for the wrong instances, and
// to adopt it would have it lose sight of its nodes, which it knows by that name. What
// plumbline has installed has the name in Git.
func (p *pass) sameClusterName(ctx context.Context) error {
	if p.karpenter.Management == render.Managed && p.sync.Status.Karpenter.Controller != nil {
		return nil
	}
	deployments, err := p.controllers(ctx)
	if err != nil {
		return err
	}
	for i := range deployments {
		deployment := &deployments[i]
		name, err := p.nameOfController(ctx, deployment)
		if err != nil {
			return err
		}
		if want := p.karpenter.Cluster.Name; name != "" && name != want {
			return &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonConflict, Err: fmt.Errorf(
				"deployment/%s in %s runs as cluster %q (CLUSTER_NAME), and plumbline.yaml has cluster.name %q: Karpenter knows its instances by that name: "+
					"set cluster.name to it, or correct settings.clusterName where that is wrong", deployment.Name, deployment.Namespace, name, want)}
		}
	}
	return nil
}

// controllerName is the cluster's name in a Deployment of the controller, as of a generation.
type controllerName struct {
	generation int64
	name       string
}

// nameOfController is the cluster's name in a Deployment of the controller. The cache keeps
// no pod template, so that it is read again where the Deployment has changed.
func (p *pass) nameOfController(ctx context.Context, deployment *appsv1.Deployment) (string, error) {
	known, read := p.memory.controllerNames[deployment.UID]
	if read && known.generation == deployment.Generation {
		return known.name, nil
	}
	whole := &appsv1.Deployment{}
	if err := p.Uncached.Get(ctx, client.ObjectKeyFromObject(deployment), whole); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read deployment/%s: %w", deployment.Name, err)
	}
	if p.memory.controllerNames == nil {
		p.memory.controllerNames = map[types.UID]controllerName{}
	}
	found := controllerName{generation: whole.Generation, name: upgrade.ClusterName(whole.Spec.Template.Spec.Containers)}
	p.memory.controllerNames[deployment.UID] = found
	return found.name, nil
}
