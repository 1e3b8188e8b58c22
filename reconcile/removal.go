package reconcile

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
)

// removing is one step of removals.
type removing func(*removal.Step, context.Context) (removal.Result, error)

// seeVanished finds the NodePools that were applied and that another client has deleted.
func (p *pass) seeVanished(ctx context.Context) (err error) {
	work := p.removalStep()
	p.live.Vanished, err = work.Vanished(ctx)
	p.live.Recorded = work.Recorded()
	p.Join(work.Findings)
	return err
}

// removesServed takes one step of removals, once the kinds are served: without them there
// is nothing to look at, and the wait is noted.
func (p *pass) removesServed(take removing) func(context.Context) error {
	return func(ctx context.Context) error {
		if !p.stages.CRDs.Ready {
			return nil
		}
		return p.removes(take)(ctx)
	}
}

// removes takes one step of removals.
func (p *pass) removes(take removing) func(context.Context) error {
	return func(ctx context.Context) error {
		work := p.removalStep()
		result, err := take(work, ctx)
		p.Join(work.Findings)
		p.did.Removed = append(p.did.Removed, result.Writes...)
		if result.Ended != "" {
			p.finish(result.Ended)
		}
		return err
	}
}

func (p *pass) removalStep() *removal.Step {
	cluster, region := p.want.Cluster(p.sync.Status.Karpenter)
	planning := p.policyStep()
	return &removal.Step{
		Tools: removal.Tools{
			Client: p.Client, Uncached: p.Uncached, Nodes: p.Nodes, Log: p.controllerLog, Gate: p.chartStep().On, Denied: p.denied,
			EC2:      func(ctx context.Context, region string) (teardown.EC2, error) { return p.cloud()(ctx, region) },
			AskEvery: p.Settings.CloudInterval, StillLeader: p.Settings.StillLeader, Reached: p.Points.Phase,
		},
		Sync: p.sync, Before: p.before, View: p.view, Memory: &p.memory.removal, Now: p.now,
		Set: p.want.Set, Live: p.live, Served: p.live.Served, Plan: p.plan.Plan,
		Revision: p.revision(), Applied: p.Unwritten == nil && p.sync.Status.LastAppliedRevision == p.revision(),
		Written: p.did.Writes(), Ready: p.stages.ready,
		Controller: p.stages.Controller, Alive: p.stages.Alive,
		Cluster: cluster, Region: region, Account: p.account,
		GoesTo: planning.GoesTo, Left: planning.Left, Withheld: p.plan.Withheld, ReadSince: p.fetchStep().ReadSince,
	}
}

// denied is why the deletion guard denies Karpenter's controller the removal of its own finalizers; empty if it does not.
func (p *pass) denied(ctx context.Context) string {
	accounts, err := p.accounts(ctx)
	if err != nil {
		return err.Error()
	}
	return p.Settings.DeletionGuard.Denied(ctx, p.Nodes.Uncached, accounts).Message()
}

// accounts are the ServiceAccounts that Karpenter's controller runs under; none while its namespace is unknown.
func (p *pass) accounts(ctx context.Context) ([]string, error) {
	namespace := p.karpenterNamespace()
	if namespace == "" {
		return nil, nil
	}
	return p.view.ServiceAccounts(ctx, namespace)
}

// ending is what ends the nodes of a NodeSync, and where that is being deleted the rest of it; or leaves all of it
// to itself.
func (p *pass) ending() []step.Step {
	if p.sync.Drains() {
		return []step.Step{
			{Name: step.Drainable, Take: p.removes((*removal.Step).Drainable)},
			{Name: step.See, Take: p.see},
			{Name: step.SeeVanished, Take: p.seeVanished},
			{Name: step.VerifyCloud, Take: p.verifyCloud},
			{Name: step.SeeCollision, Take: p.seeCollision},
			{Name: step.SeeController, Take: p.seeController},
			{Name: step.MakePlan, Take: p.makePlan},
			{Name: step.Drain, Take: p.removes((*removal.Step).Drain)},
			{Name: step.FinishDrained, Take: p.removes((*removal.Step).FinishDrained)},
		}
	}
	return []step.Step{{Name: step.See, Take: p.see}, {Name: step.Orphan, Take: p.removes((*removal.Step).Orphan)}}
}

// addFinalizer comes before anything that a deletion would have to undo.
func (p *pass) addFinalizer(context.Context) error {
	controllerutil.AddFinalizer(p.sync, v1alpha1.Finalizer)
	p.Wait("finalizer", "taking charge")
	p.WakeBy(p.now)
	return nil
}

// seeController reads whether Karpenter's controller is alive.
func (p *pass) seeController(ctx context.Context) (err error) {
	if p.stages.Controller, p.stages.Alive, err = p.chartStep().Controller(ctx); err != nil {
		return err
	}
	p.seeHeartbeat(ctx)
	return nil
}

// finish takes our finalizer off: the deletion is concluded.
func (p *pass) finish(how string) {
	controllerutil.RemoveFinalizer(p.sync, v1alpha1.Finalizer)
	p.Event(v1alpha1.ReasonDeleted, "the deletion is concluded: "+how)
	p.Finished = true
}
