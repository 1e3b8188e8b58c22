package reconcile

import (
	"context"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// installCharts brings the first two Stages, or looks whether somebody else has.
func (p *pass) installCharts(ctx context.Context) error {
	if p.want.Karpenter.Management == render.External && p.sync.Status.Karpenter == nil {
		// Written before it is done: the next pass goes by it.
		p.fix()
		p.Wait("the first install", "what it fixes is recorded first")
		p.wakeNow()
		return nil
	}
	p.fix()
	p.noteCluster()
	if p.NotUpgraded != nil {
		return p.serveInForce(ctx)
	}
	charts := p.chartStep()
	installed, err := charts.Run(ctx)
	p.Join(charts.Findings)
	p.stages.Installed = installed
	if err == nil || !install.InForce(p.sync.Status.Karpenter, err) {
		return err
	}
	// The steps before this one are taken again, by what is in force.
	p.NotUpgraded = err
	for _, again := range []func(context.Context) error{p.resolveInForce, p.render, p.makePlan} {
		if err := again(ctx); err != nil {
			return err
		}
	}
	return p.serveInForce(ctx)
}

// serveInForce has the rest of the pass go on under the release in force.
func (p *pass) serveInForce(ctx context.Context) error {
	charts := p.chartStep()
	installed, err := charts.Serve(ctx)
	p.Join(charts.Findings)
	p.stages.Installed = installed
	return err
}

// leastRollout is how long a new controller has at least to come up and to lead: the lease
// of the one before lasts 15 s (client-go's default, which Karpenter leaves), so that a
// shorter time would roll every change back.
const leastRollout = 30 * time.Second

// chartStep is the work on the charts, from what the steps before it have found.
func (p *pass) chartStep() *install.Step {
	return &install.Step{
		Tools: install.Tools{Client: p.Client, Helm: p.Install, Logs: p.Logs, Schemas: &p.schemas, StillLeader: p.Settings.StillLeader},
		Wanted: install.Wanted{
			Karpenter: p.want.Karpenter, Charts: p.want.Charts, Values: p.want.Values, Permit: p.desiredStep().Permit,
			Revision: p.revision(), Set: p.want.Set, Serving: p.want.Serving,
		},
		Sync: p.sync, View: p.view, Live: p.live, Memory: &p.memory.install,
		Now: p.now, Timeout: max(p.timeout(), leastRollout), Retry: p.retryInterval(), Insist: p.insists(),
		Confirm: p.mayChangeCharts, Hide: p.memory.conclude.Hide,
	}
}

// insists says that a person has asked for this pass: what is fought for is put
// right once more.
func (p *pass) insists() bool {
	return p.sync.Status.LastHandledReconcileAt != p.before.Status.LastHandledReconcileAt
}

// settleCharts ends a change of the charts once every definition is Ready under
// the new controller.
func (p *pass) settleCharts(context.Context) error {
	if !p.stages.Controller.Ready {
		return nil
	}
	for _, kind := range []string{render.EC2NodeClass, render.NodePool} {
		if ready := p.stages.of(p.want.Set, kind); !ready.Ready {
			return nil
		}
	}
	settled := upgrade.Settle(*p.sync.Status.Karpenter, observe.Readiness{Ready: true})
	p.sync.Status.Karpenter = &settled
	return nil
}
