package reconcile

import (
	"context"

	"github.com/plumbline-dev/plumbline/provision/images"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/train"
)

// observeImages compares the AMIs of the definitions with those that AWS publishes, and proposes newer ones if
// spec.images wants that. That happens in the background: it blocks and fails nothing.
func (r *reconciliation) observeImages(ctx context.Context, d done) (done, error) {
	cluster, region := d.evaluation.Desired.Cluster(r.sync.Status.Karpenter)
	set, spec, fetched := d.evaluation.Desired.Set, r.sync.Spec.Images, r.sourceStep()
	dial := verifiedCloud(d.account(), r.cloud())
	found := r.memory.train.See(ctx, train.Look{
		Tools: train.Tools{
			AWS:   func(ctx context.Context) (images.PublishedAWS, error) { return dial(ctx, region) },
			Git:   func() train.Git { return fetched.Pusher(spec.SecretRef) },
			Hosts: &report.Hosts{Now: r.Settings.Now}, Confine: r.Confine, Secret: r.readSecret,
			Grants: r.Settings.Grants, StillLeader: r.Settings.StillLeader,
		},
		Sync: r.sync, Classes: train.Classes(set), Cluster: cluster, Kubernetes: r.memory.account.Kubernetes(), Inputs: set.Sum, Now: r.now,
	}, &d.Findings)
	r.sync.Status.Images, d.Images = found.Status, &found
	return d, nil
}
