package account

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// Collides looks for Karpenter's controller where the verdict is that this
// is not the cluster of that name: it terminates the other cluster's instances
// while it runs, whichever tool installed it. A cluster that was verified before under
// another ARN is another matter: then plumbline's own role has changed accounts.
func (s *Step) Collides(ctx context.Context, verdict *cloud.Verdict) (emergency string, err error) {
	if verdict == nil || verdict.Reason != cloud.ReasonAuthorityDiffers || s.otherAccount() {
		return "", nil
	}
	found := &appsv1.DeploymentList{}
	if err := s.View.Cached.List(ctx, found, client.MatchingLabels(observe.ControllerLabels())); err != nil {
		return "", fmt.Errorf("find Karpenter's Deployments: %w", err)
	}
	for i := range found.Items {
		deployment := &found.Items[i]
		if !observe.Running(deployment) {
			continue
		}
		containers, err := s.View.Containers(ctx, deployment)
		if err != nil {
			return "", err
		}
		if name := upgrade.ClusterName(containers); name == s.Name || name == "" {
			return collision(deployment, s.Name, verdict.Message), nil
		}
	}
	return "", nil
}

// collision is the message of a controller that runs under another cluster's name.
func collision(deployment *appsv1.Deployment, cluster, why string) string {
	return fmt.Sprintf("Karpenter runs here as another cluster, %s, and terminates its instances: kubectl scale deployment %s -n %s --replicas=0; "+
		"then correct cluster.name, or the account of plumbline's role if that is wrong: %s", cluster, deployment.Name, deployment.Namespace, why)
}

// otherAccount says that AWS has shown another EKS cluster than the one that was
// verified to be this one.
func (s *Step) otherAccount() bool {
	return s.ClusterARN != "" && s.Memory.arn != "" && s.ClusterARN != s.Memory.arn
}
