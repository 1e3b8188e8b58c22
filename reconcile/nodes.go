package reconcile

import (
	"context"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
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
	p.launchless, p.looked = nodes.PassedOver(launchless, passedOver), true
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
	for _, w := range p.applied.Written {
		written[w.Ref] = true
	}
	replacing := nodes.Replacing(p.plan.Changes, written, p.live.NodeClaims)
	k, drifting, found := nodes.UnexpectedDrift(*p.sync.Status.Karpenter, claims, nodes.Pools(p.want.Set, p.live.Objects), replacing, p.now)
	p.Join(found)
	p.sync.Status.Karpenter, p.drifting, p.watchedDrift = &k, drifting, true
	return nil
}

// setLaunchFailing tells of pools that get no nodes, for as long as that is so.
func (p *pass) setLaunchFailing() {
	switch {
	case !p.looked:
	case len(p.launchless) == 0:
		conditions.Delete(p.sync, v1alpha1.LaunchFailingCondition)
	default:
		words := make([]string, 0, len(p.launchless))
		for _, l := range p.launchless {
			words = append(words, render.NodePool+"/"+l.Pool+" gets no nodes: "+l.Why)
		}
		conditions.MarkTrue(p.sync, v1alpha1.LaunchFailingCondition, v1alpha1.ReasonLaunchFailed, "%s", finding.Bounded(finding.Few(words, "; "), maxConditionMessage))
	}
	p.warnOfCondition(v1alpha1.LaunchFailingCondition)
}

// setNodeDrift tells of unexpected node drift, for as long as it lasts. A pass
// that has not come so far leaves what was told.
func (p *pass) setNodeDrift() {
	k := p.sync.Status.Karpenter
	switch {
	case p.drifting != "":
		conditions.MarkTrue(p.sync, v1alpha1.NodeDriftCondition, v1alpha1.ReasonNotForetold, "%s", finding.Bounded(p.drifting, maxConditionMessage))
	case p.watchedDrift || k == nil || k.NodeDrift == nil:
		conditions.Delete(p.sync, v1alpha1.NodeDriftCondition)
	}
	p.warnOfCondition(v1alpha1.NodeDriftCondition)
}

// warnOfCondition has an event say what a condition says, once.
func (p *pass) warnOfCondition(kind string) {
	now, before := conditions.Get(p.sync, kind), conditions.Get(p.before, kind)
	if now != nil && !sameWords(before, now) {
		p.Notes = append(p.Notes, finding.Note{Type: corev1.EventTypeWarning, Reason: now.Reason, Message: now.Message})
	}
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
