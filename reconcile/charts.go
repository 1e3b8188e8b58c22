package reconcile

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/resolve"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// installCharts brings the first two Stages, or looks whether another tool has.
func (p *pass) installCharts(ctx context.Context) error {
	if p.want.Karpenter.Management == render.External && p.sync.Status.Karpenter == nil {
		// Written before it is done: the next pass goes by it.
		p.sync.Status.Karpenter = p.want.Fixed(nil)
		p.Wait("the first install", "what it fixes is recorded first")
		p.WakeBy(p.now)
		return nil
	}
	p.sync.Status.Karpenter = p.want.Fixed(p.sync.Status.Karpenter)
	p.memory.account.Note(p.sync.Status.Karpenter, p.account)
	if p.NotUpgraded != nil {
		return p.charted(ctx, (*install.Step).Serve)
	}
	err := p.charted(ctx, (*install.Step).Run)
	if t := p.sync.Status.Karpenter.Target; t != nil && upgrade.InProgress(*t) {
		p.notePartlyApplied()
	}
	if err == nil || !install.InForce(p.sync.Status.Karpenter, err) {
		return err
	}
	// The steps before this one are taken again, by what is in force.
	p.NotUpgraded = err
	for _, again := range []func(context.Context) error{p.desire((*desired.Step).TakeSchemaInForce), p.render, p.makePlan} {
		if err := again(ctx); err != nil {
			return err
		}
	}
	return p.charted(ctx, (*install.Step).Serve)
}

// charted takes one step of the charts: they are installed to what Git says, or the rest of
// the pass goes on under the release in force.
func (p *pass) charted(ctx context.Context, take func(*install.Step, context.Context) (install.Installed, error)) (err error) {
	step := p.chartStep()
	p.stages.Installed, err = take(step, ctx)
	p.Join(step.Findings)
	p.seeHeartbeat(ctx)
	return err
}

// seeHeartbeat looks whether the controller, whose pods may all be Ready, renews its lease: one that does not does nothing.
// A lease that cannot be read proves nothing, and stops nothing, and neither does one of before the leader election was
// turned off.
func (p *pass) seeHeartbeat(ctx context.Context) {
	if !p.stages.Controller.Ready {
		return
	}
	stopped, err := p.memory.heartbeat.Look(ctx, p.Nodes.Uncached, p.karpenterNamespace(), p.now)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("whether Karpenter renews its lease is unknown", "error", err.Error())
	}
	if p.memory.heartbeat.Found() {
		p.WakeBy(p.now.Add(upgrade.ReadWithin))
	}
	if stopped == nil || !p.elects(ctx) {
		return
	}
	p.stages.Controller, p.stages.Alive = observe.Readiness{Message: stopped.Message}, false
	p.WaitFor("Controller", stopped.Message, stopped.Since, p.sync.GetStallAfter())
}

// elects reports whether Karpenter's controller elects a leader; false if that cannot be read.
func (p *pass) elects(ctx context.Context) bool {
	controllers, err := p.view.Controllers(ctx, p.karpenterNamespace())
	off := false
	if err == nil {
		off, err = upgrade.ElectionOff(ctx, p.Nodes.Uncached, controllers)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("whether Karpenter elects a leader is unknown", "error", err.Error())
	}
	return err == nil && !off
}

// chartStep is the work on the charts, from what the steps before it have found.
func (p *pass) chartStep() *install.Step {
	return &install.Step{
		Tools: install.Tools{Client: p.Nodes.Client, Helm: p.Install, Logs: p.Logs, Schemas: &p.schemas, StillLeader: p.Settings.StillLeader},
		Wanted: install.Wanted{
			Karpenter: p.want.Karpenter, Charts: p.want.Charts, Values: p.want.Values, Permit: p.desiredStep().Permit,
			Revision: p.revision(), Set: p.want.Set, Serving: p.want.Serving, Older: p.plan.Older, Frozen: p.plan.FrozenNow(),
		},
		Sync: p.sync, View: p.view, Live: p.live, Memory: &p.memory.install,
		Now: p.now, Timeout: p.sync.GetTimeout(), Retry: p.sync.GetRetryInterval(), Insist: p.insists(),
		Confirm: p.mayChangeCharts, Hide: p.memory.conclude.Hide,
	}
}

// insists reports whether a person has asked for this pass: what is fought for is corrected once more.
func (p *pass) insists() bool {
	return p.sync.Status.LastHandledReconcileAt != p.before.Status.LastHandledReconcileAt
}

// settleCharts ends a change of the charts once every definition is Ready under
// the new controller.
func (p *pass) settleCharts(context.Context) error {
	if p.stages.Controller.Ready {
		settled := upgrade.Settle(*p.sync.Status.Karpenter, p.stages.ready.Of(p.want.Set, render.EC2NodeClass, render.NodePool))
		p.sync.Status.Karpenter = &settled
	}
	return nil
}

// verifyCloud finds out whether EC2 can be asked, and is the account that this cluster's
// nodes are in. What is not verified blocks removals, and the charts as install.Barrier
// says. It stops a pass only where the commit renames the cluster.
func (p *pass) verifyCloud(ctx context.Context) error {
	p.asks(ctx, (*account.Step).Verify)
	return p.want.CheckRename(p.account.OK)
}

// mayChangeCharts is asked before each change of the charts, and whether one is
// needed.
func (p *pass) mayChangeCharts(ctx context.Context) error {
	p.asks(ctx, (*account.Step).Confirm)
	return install.Barrier(*p.sync.Status.Karpenter, *p.account, p.sync.Spec.Guard.AllowUnverifiedAccount)
}

// asks takes what AWS says of the account.
func (p *pass) asks(ctx context.Context, ask func(*account.Step, context.Context) cloud.Verdict) {
	step := p.accountStep()
	verdict := ask(step, ctx)
	p.Join(step.Findings)
	told := conclude.CloudVerified(verdict)
	p.account, p.CloudVerified = &verdict, &told
}

// seeCollision looks for a controller that runs here under another cluster's name.
func (p *pass) seeCollision(ctx context.Context) (err error) {
	p.SawAccount = true
	p.Collision, err = p.accountStep().Collides(ctx, p.account)
	return err
}

func (p *pass) accountStep() *account.Step {
	name, region := p.want.Cluster(p.sync.Status.Karpenter)
	return &account.Step{
		Cloud: p.cloud(), CertificateAuthority: p.Settings.CertificateAuthority, View: p.view, Memory: &p.memory.account,
		Name: name, Region: region, ClusterARN: p.sync.Status.Karpenter.GetClusterARN(), Generation: p.sync.Generation,
		Claims: p.live.NodeClaims, Removals: p.sync.Status.Removals,
		Now: p.now, Interval: p.Settings.CloudInterval, Retry: p.sync.GetRetryInterval(), Patience: account.Patience(p.sync.GetTimeout()),
	}
}

// resolveStep is the question what selectors come to. It is asked in the account that was verified.
func (p *pass) resolveStep() *resolve.Step {
	name, region := p.want.Cluster(p.sync.Status.Karpenter)
	return &resolve.Step{
		Cloud:   func(ctx context.Context) (resolve.Cloud, error) { return p.cloud()(ctx, region) },
		Cluster: name, Kubernetes: p.memory.account.Kubernetes(), Patience: account.Patience(p.sync.GetTimeout()),
		Unverified: resolve.Unverified(p.account),
	}
}

// cloud dials AWS, whose answers about instances are not waited for long.
func (p *pass) cloud() account.Dialer {
	return p.Clouds.Within(account.Patience(p.sync.GetTimeout()))
}
