package install

import (
	"context"
	"fmt"

	"github.com/plumbline-dev/plumbline/contradiction"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// sameClusterName refuses a controller that another tool has installed and that runs under
// another cluster's name than the one in Git. EC2 would be asked for the wrong instances, and
// to adopt it would have it lose sight of its nodes, which it knows by that name. What
// plumbline has installed has the name in Git.
func (s *Step) sameClusterName(ctx context.Context) error {
	if s.Karpenter.Management == render.Managed && s.k().Controller != nil {
		return nil
	}
	deployments, err := s.View.Controllers(ctx, s.k().Namespace)
	if err != nil {
		return err
	}
	for i := range deployments {
		deployment := &deployments[i]
		containers, err := s.View.Containers(ctx, deployment)
		if err != nil {
			return err
		}
		cluster := contradiction.Cluster{Name: s.Karpenter.Cluster.Name}
		what := fmt.Sprintf("CLUSTER_NAME of deployment/%s in %s", deployment.Name, deployment.Namespace)
		if err := contradiction.Running(cluster, what, upgrade.ClusterName(containers)); err != nil {
			return fault.Conflict(err)
		}
	}
	return nil
}
