package reconcile

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// seeLaunches finds the pools of Git that get no nodes.
func (p *pass) seeLaunches(ctx context.Context) error {
	pools := nodes.Pools(p.want.Set, p.live.Objects)
	look := nodes.Launches{Known: p.Launches, Events: p.Uncached, Now: p.now, Retry: p.retryInterval()}
	launchless, found, err := look.Look(ctx, pools)
	p.Join(found)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "see launches")
	}
	passedOver, err := p.passedOver(ctx, pools)
	if err != nil {
		return err
	}
	p.Launchless, p.Looked = nodes.PassedOver(launchless, passedOver), true
	return nil
}

// passedOver are the static pools without a node, where Karpenter's feature gate for
// them is off.
func (p *pass) passedOver(ctx context.Context, pools []nodes.Pool) ([]string, error) {
	empty := nodes.EmptyStatic(pools, p.live.NodeClaims)
	if len(empty) == 0 || p.sync.Status.Karpenter == nil {
		return nil, nil
	}
	deployments, err := p.view.Controllers(ctx, p.sync.Status.Karpenter.Namespace)
	if err != nil {
		return nil, err
	}
	for i := range deployments {
		containers, err := p.view.Containers(ctx, &deployments[i])
		if err != nil {
			return nil, err
		}
		if on, known := upgrade.FeatureGate(containers, nodes.StaticGate); known && !on {
			return empty, nil
		}
	}
	return nil, nil
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
	written := map[render.Ref]bool{}
	for _, w := range p.did.Written {
		written[w.Ref] = true
	}
	replacing := nodes.Replacing(p.plan.Changes, written, p.live.NodeClaims)
	k, drifting, found := nodes.UnexpectedDrift(*p.sync.Status.Karpenter, claims, nodes.Pools(p.want.Set, p.live.Objects), replacing, p.now)
	p.Join(found)
	p.sync.Status.Karpenter, p.Drifting, p.WatchedDrift = &k, drifting, true
	return nil
}

// poolHosts are the pods of Karpenter's controller and of the daemon itself that run
// on nodes of a NodePool, whoever owns it.
func (p *pass) poolHosts(ctx context.Context) ([]plan.Host, error) {
	var own []plan.Host
	if p.Settings.Node != "" {
		own = append(own, plan.Host{Workload: "plumbline", Pod: p.Settings.Namespace + "/" + p.Settings.Pod, Node: p.Settings.Node})
	}
	namespace := ""
	if p.sync.Status.Karpenter != nil {
		namespace = p.sync.Status.Karpenter.Namespace
	}
	return p.view.PoolHosts(ctx, namespace, own, p.live.NodeClaims)
}
