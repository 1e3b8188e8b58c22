package reconcile

import (
	"context"
	"fmt"

	"github.com/fluxcd/pkg/runtime/conditions"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// seeCollision looks for Karpenter's controller where CloudVerified says that this
// is not the cluster of that name: it terminates the other cluster's instances
// while it runs, whoever installed it. A cluster that was verified before under
// another ARN is another matter: then plumbline's own role has changed accounts.
func (p *pass) seeCollision(ctx context.Context) error {
	p.SawAccount = true
	verified := conditions.Get(p.sync, v1alpha1.CloudVerifiedCondition)
	if verified == nil || verified.Reason != cloud.ReasonAuthorityDiffers || p.otherAccount() {
		return nil
	}
	found := &appsv1.DeploymentList{}
	if err := p.Client.List(ctx, found, client.MatchingLabels(observe.ControllerLabels())); err != nil {
		return fmt.Errorf("find Karpenter's Deployments: %w", err)
	}
	cluster, _ := p.clusterName()
	for i := range found.Items {
		deployment := &found.Items[i]
		if !observe.Running(deployment) {
			continue
		}
		containers, err := p.view.Containers(ctx, deployment)
		if err != nil {
			return err
		}
		if name := upgrade.ClusterName(containers); name == cluster || name == "" {
			p.Collision = collision(deployment, cluster, verified.Message)
			return nil
		}
	}
	return nil
}

// collision is what is said of a controller that runs under another cluster's name.
func collision(deployment *appsv1.Deployment, cluster, why string) string {
	return fmt.Sprintf("Karpenter runs here as another cluster, %s, and terminates its instances: kubectl scale deployment %s -n %s --replicas=0; "+
		"then correct cluster.name, or the account of plumbline's role if that is wrong: %s", cluster, deployment.Name, deployment.Namespace, why)
}

// otherAccount says that AWS has shown another EKS cluster than the one that was
// verified to be this one.
func (p *pass) otherAccount() bool {
	k, last := p.sync.Status.Karpenter, p.memory.account
	return k != nil && k.ClusterARN != "" && last.arn != "" && k.ClusterARN != last.arn
}
