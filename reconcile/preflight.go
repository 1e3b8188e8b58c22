package reconcile

import (
	"context"
	"fmt"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/preflight"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/render"
)

// preflightSeen is what the checks before the writes have found.
type preflightSeen struct {
	// Problems are what disrupts nodes, each with what to do. Known reports that the checks had everything they need.
	Problems []string
	Known    bool
}

// preflight checks, before the charts and the definitions are written, whether the role of Karpenter's controller allows what
// the version needs: the one that is in force, or before the first install the one in Git.
func (r *reconciliation) preflight(ctx context.Context, ev evaluation) preflightSeen {
	set := ev.Desired.Set
	if set == nil || account.Unverified(ev.observed.Account) != "" {
		return preflightSeen{}
	}
	o := preflight.Observed{Version: ev.Desired.Karpenter.Version}
	if o.Cluster, o.Region = ev.Desired.Cluster(r.sync.Status.Karpenter); o.Cluster == "" || o.Region == "" {
		return preflightSeen{}
	}
	if k := r.sync.Status.Karpenter; k != nil && k.Version != "" {
		o.Version = k.Version
	}
	for i := range set.Objects {
		class := awsv1.EC2NodeClass{}
		if object := set.Objects[i]; object.Ref.Kind != render.EC2NodeClass ||
			runtime.DefaultUnstructuredConverter.FromUnstructured(object.Desired.Object, &class) != nil {
			continue
		}
		o.Classes.Of = append(o.Classes.Of, class)
	}
	at := ev.Desired.Karpenter.Cluster
	o.Controllers.Of = []preflight.Controller{{
		Namespace: r.karpenterNamespace(), Name: "karpenter", Replicas: 1, Version: o.Version,
		Environment: map[string]string{"CLUSTER_NAME": o.Cluster, "INTERRUPTION_QUEUE": at.InterruptionQueue},
	}}
	grant := GrantOf(r.cloud())
	found, known := r.memory.preflight.See(ctx, account.PreflightLook{
		Grant: func(ctx context.Context, cluster string, of cloud.ServiceAccount) (cloud.Grant, error) {
			return grant(ctx, cluster, o.Region, of)
		},
		Account: r.chartStep(ev).ControllerAccount, Observed: o, Now: r.now,
	})
	seen := preflightSeen{Known: known}
	for _, f := range found {
		seen.Problems = append(seen.Problems, fmt.Sprintf("%s: plumbline doctor %s -n %s --only controller-role", f.Message, r.sync.Name, r.sync.Namespace))
	}
	return seen
}
