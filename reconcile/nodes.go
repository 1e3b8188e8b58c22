package reconcile

import (
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/brake"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/instances"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/propose"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/reconcile/termination"
	"github.com/plumbline-dev/plumbline/render"
)

// seeLaunches finds the pools of Git that get no nodes.
func (p *pass) seeLaunches(ctx context.Context) (err error) {
	pools := nodes.Pools(p.want.Set, p.live.Objects)
	look := nodes.Launches{Known: p.Nodes.Launches, Events: p.Nodes.Uncached, Now: p.now, Retry: p.sync.GetRetryInterval(), Claims: p.live.NodeClaims, Off: p.chartStep().Off}
	p.LaunchFailures, err = look.See(ctx, pools, &p.Findings)
	p.Looked = err == nil
	return err
}

// seeNodeDrift finds unexpected node drift after a change of Karpenter.
func (p *pass) seeNodeDrift(ctx context.Context) error {
	if p.sync.Status.Karpenter.NodeDrift == nil {
		return nil
	}
	seen, err := nodes.SeeDrift(ctx, *p.sync.Status.Karpenter, p.view.Claims, p.rollouts(), p.did.Refs())
	p.sync.Status.Karpenter, p.Drifting, p.WatchedDrift = &seen.Karpenter, seen.Words, err == nil
	p.Join(seen.Findings)
	return err
}

// seeRollout finds which nodes do not match, and what keeps them, and stops what goes wrong.
func (p *pass) seeRollout(ctx context.Context) error {
	p.PoolRollouts = p.memory.proposals.See(ctx, propose.Look{
		Tools: propose.Tools{Revert: p.fetchStep().Revert, Hosts: &report.Hosts{Now: p.Settings.Now}, Confine: p.Confine, Secret: p.readSecret, Grants: p.Settings.Grants, StillLeader: p.Settings.StillLeader},
		Sync:  p.sync, Recorded: p.before.Status.PoolRollouts, Pools: p.brake(ctx, false), Cluster: p.accountStep().Name, Inputs: p.want.Set.Inputs, Now: p.now,
	}, &p.Findings)
	return nil
}

// brake finds which nodes do not match, and stops what goes wrong. inForce reports that it goes by what is in force only.
// While Karpenter's kinds are not served, nothing is known of nodes, and what was seen before stays.
func (p *pass) brake(ctx context.Context, inForce bool) []v1alpha1.PoolRollout {
	if !p.live.Served {
		return p.before.Status.PoolRollouts
	}
	look := p.rollouts()
	p.Rollout = look.See(ctx, p.stages.Controller.Ready)
	p.Restored = look.Restored
	p.SawRollout = p.stages.Controller.Ready || p.Rollout != nil
	stop := brake.Step{
		Writer: p.Nodes.Client, Secrets: p.Uncached, StillLeader: p.Settings.StillLeader, Grants: p.Settings.Grants, Launches: p.Nodes.Launches, Gate: p.chartStep().On, Holds: &p.memory.holds, Sync: p.sync, Set: p.want.Set, Live: p.live, Changes: p.plan.Changes,
		Rollout: p.Rollout, Outdated: look.Outdated, Unknown: look.Unknown, Frozen: p.plan.Frozen, InForce: inForce, Now: p.now, EC2: func(ctx context.Context, region string) (brake.EC2, error) { return p.cloud()(ctx, region) },
	}
	pools := stop.Run(ctx)
	p.Join(look.Findings)
	p.Join(stop.Findings)
	return pools
}

// attend does what must not wait for HEAD after a pass that has failed, by what is in force: it stops rollouts, and looks at
// instances and at what is terminating. Karpenter continues, whatever is wrong with HEAD.
func (p *pass) attend(ctx context.Context) {
	brakes := !p.SawRollout && len(p.did.Written) == 0
	if p.Fault == nil || !brakes && p.Terminations != nil {
		return
	}
	at := *p
	at.Found, at.want.Karpenter = conclude.Found{Rollout: p.Rollout}, nil // HEAD's may be another version, in another region
	at.run(ctx, step.Step{Name: step.See, Take: at.see}, step.Step{Name: step.SeeController, Take: at.seeController}, step.Step{Name: step.SeeRollout, Take: func(ctx context.Context) (err error) {
		at.want.Set, at.plan.Plan, err = plan.InForce(at.live, plan.PolicyOf(p.sync, nil, nil), p.now)
		if err == nil && brakes {
			at.PoolRollouts = at.brake(ctx, true)
		}
		return err
	}}, step.Step{Name: step.SeeInstances, Take: at.seeInstancesInForce}, step.Step{Name: step.SeeTerminations, Take: at.seeTerminations})
	if brakes {
		p.Rollout, p.SawRollout, p.PoolRollouts = at.Rollout, at.SawRollout, at.PoolRollouts
	}
	p.Instances, p.Terminations, p.did = at.Instances, at.Terminations, at.did
	p.Join(at.Findings)
	if f := at.Fault; brakes && f != nil && f.Class != fault.Superseded && f.Error() != p.Fault.Error() {
		p.Warn(v1alpha1.ReasonBrakeFailed, "the revision fails, and whether a rollout is to be stopped is not known: "+f.Error())
		p.WakeBy(p.now.Add(p.sync.GetRetryInterval()))
	}
}

// seeInstancesInForce compares instances after a pass that has failed, perhaps before it verified the account.
func (p *pass) seeInstancesInForce(ctx context.Context) error {
	if p.account == nil {
		p.asks(ctx, (*account.Step).Verify)
	}
	return p.seeInstances(ctx)
}

// seeInstances finds EC2 instances that are not what their definitions and NodeClaims say.
func (p *pass) seeInstances(ctx context.Context) error {
	aws, at := p.resolveStep(), p.accountStep()
	p.Instances = p.memory.instances.See(ctx, instances.Look{
		Cloud: func(ctx context.Context) (instances.Cloud, error) { return at.Cloud(ctx, at.Region) }, Reader: p.Nodes.Uncached, Cluster: at.Name, Unverified: aws.Unverified,
		Set: p.want.Set, Live: p.live, Rolling: p.Rollout != nil, Removals: len(p.sync.Status.Removals), Urgent: p.memory.terminations.NeedsInstances(), Before: p.before.Status.Instances, Now: p.now, Every: p.Settings.CompareInstances,
	}, &p.Findings)
	return nil
}

// seeTerminations finds what has been terminating for longer than expected, and what each waits for. Of pools whose
// removal has begun the removal reports that; until then they are reported here, although Git no longer has them.
func (p *pass) seeTerminations(ctx context.Context) error {
	ours := map[string]bool{}
	for _, pool := range nodes.Pools(p.want.Set, p.live.Objects) {
		ours[pool.Name] = true
	}
	removed := map[string]bool{}
	for _, r := range p.sync.Status.Removals {
		if r.Kind == render.NodePool {
			removed[r.Name] = r.Begun() || r.Reason == teardown.ReasonNodeClaimsLeaving
			ours[r.Name] = !removed[r.Name]
		}
	}
	controller := ""
	if !p.stages.Alive {
		controller = "Karpenter's controller does nothing: " + p.stages.Controller.Message
	}
	var left []termination.Left
	if p.Instances != nil && p.Instances.Failure == "" { // else the last comparison may no longer be true
		left = p.memory.instances.Left()
	}
	work := p.removalStep()
	look := termination.Look{
		Claims: p.live.NodeClaims, Left: left, Controller: controller, After: termination.After(p.sync.GetStallAfter()),
		Pools: func(name string) bool {
			return !removed[name] && (ours[name] || p.live.Objects[render.Ref{Kind: render.NodePool, Name: name}] == nil)
		},
		Blockers: work.Blockers(ctx), Memory: &p.memory.terminations, Now: p.now,
	}
	p.Terminations = look.See(ctx)
	p.Join(look.Findings)
	return nil
}

// rollouts is the look at nodes that are replaced, from what the steps before it have found.
func (p *pass) rollouts() *nodes.Rollouts {
	return &nodes.Rollouts{
		Live: p.live, Pools: nodes.Pools(p.want.Set, p.live.Objects), Classes: nodes.Classes(p.want.Set, p.live.Objects), Events: p.Nodes.Uncached,
		CABundle: p.Settings.CABundle(), DaemonSets: p.view.DaemonSetsOf(p.live.NodeClaims, p.now, p.sync.GetRetryInterval()), Before: p.sync.Status.Rollout, Said: p.before.Status.Rollout, Changes: p.plan.Changes, Revision: p.revision(), Applied: p.before.Status.LastAppliedRevision,
		Now: p.now, LaunchFailures: p.LaunchFailures, Memory: &p.memory.rollout, EC2: func(ctx context.Context) (nodes.EC2, error) { return p.cloud()(ctx, p.accountStep().Region) },
	}
}
