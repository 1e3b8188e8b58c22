package reconcile

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// seeLaunches finds the pools of Git that get no nodes.
func (p *pass) seeLaunches(ctx context.Context) error {
	pools := nodes.Pools(p.want.Set, p.live.Objects)
	look := nodes.Launches{Known: p.Launches, Events: p.Uncached, Now: p.now, Retry: p.sync.GetRetryInterval()}
	launchless, found, err := look.Look(ctx, pools)
	p.Join(found)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "see launches")
	}
	p.Launchless, err = nodes.PassedOver(ctx, launchless, pools, p.live.NodeClaims, p.chartStep().Off)
	p.Looked = err == nil
	return err
}

// seeNodeDrift finds unexpected node drift after a change of Karpenter.
func (p *pass) seeNodeDrift(ctx context.Context) error {
	if p.sync.Status.Karpenter.NodeDrift == nil {
		return nil
	}
	claims, err := p.view.Claims(ctx)
	if err != nil {
		return err
	}
	replacing := nodes.Replacing(p.plan.Changes, p.did.Refs(), p.live.NodeClaims)
	k, drifting, found := nodes.UnexpectedDrift(*p.sync.Status.Karpenter, claims, nodes.Pools(p.want.Set, p.live.Objects), replacing, p.now)
	p.Join(found)
	p.sync.Status.Karpenter, p.Drifting, p.WatchedDrift = &k, drifting, true
	return nil
}

// poolHosts are the pods of Karpenter's controller and of the daemon itself that run
// on nodes of a NodePool, of any owner.
func (p *pass) poolHosts(ctx context.Context) ([]plan.Host, error) {
	return p.view.PoolHosts(ctx, p.sync.Status.Karpenter, p.Settings.Own, p.live.NodeClaims)
}
