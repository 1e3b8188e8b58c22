package reconcile

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
)

// seeVanished finds the NodePools that were applied and that another client has deleted.
func (p *pass) seeVanished(ctx context.Context) (err error) {
	step := p.removalStep()
	p.live.Vanished, err = step.Vanished(ctx)
	p.Join(step.Findings)
	return err
}

// recordApplied records what of the NodeSync lives, once its kinds are served.
func (p *pass) recordApplied(ctx context.Context) error {
	if !p.stages.CRDs.Ready {
		return nil
	}
	step := p.removalStep()
	err := step.RecordApplied(ctx)
	p.Join(step.Findings)
	return err
}

// remove records what has left the repository, and takes what an earlier pass
// has recorded one step further.
func (p *pass) remove(ctx context.Context) error {
	if !p.stages.CRDs.Ready {
		return nil // without a kind there is nothing to look at; the wait is noted
	}
	return p.removes(ctx, (*removal.Step).Run)
}

// drain takes everything of a NodeSync away that is being deleted.
func (p *pass) drain(ctx context.Context) (err error) {
	planning := p.policyStep()
	p.plan, err = planning.MakeEmpty(ctx)
	p.Join(planning.Findings)
	if err != nil {
		return err
	}
	return p.removes(ctx, (*removal.Step).Drain)
}

// finishDrained ends the deletion once nothing is left.
func (p *pass) finishDrained(ctx context.Context) error {
	return p.removes(ctx, (*removal.Step).FinishDrained)
}

// orphan ends the deletion, and leaves objects and nodes.
func (p *pass) orphan(ctx context.Context) error { return p.removes(ctx, (*removal.Step).Orphan) }

// removes takes one step of removals.
func (p *pass) removes(ctx context.Context, take func(*removal.Step, context.Context) (removal.Result, error)) error {
	step := p.removalStep()
	result, err := take(step, ctx)
	p.Join(step.Findings)
	p.did.Removed = append(p.did.Removed, result.Deeds...)
	if result.Ended != "" {
		p.finish(result.Ended)
	}
	return err
}

// finish takes our finalizer off: the deletion is concluded.
func (p *pass) finish(how string) {
	controllerutil.RemoveFinalizer(p.sync, v1alpha1.Finalizer)
	p.Event(v1alpha1.ReasonDeleted, "the deletion is concluded: "+how)
	p.Finished = true
}

func (p *pass) removalStep() *removal.Step {
	cluster, region := p.clusterName()
	planning := p.policyStep()
	return &removal.Step{
		Tools: removal.Tools{
			Client: p.Client, Uncached: p.Uncached, Launches: p.Launches, EC2: p.ec2,
			AskEvery: p.Settings.CloudInterval, StillLeader: p.Settings.StillLeader, Reached: p.Points.Phase,
		},
		Sync: p.sync, Before: p.before, View: p.view, Memory: &p.memory.removal, Now: p.now,
		Set: p.want.Set, Live: p.live, Served: p.live.Served, Plan: p.plan.Plan,
		Revision: p.revision(), Applied: p.Unwritten == nil && p.sync.Status.LastAppliedRevision == p.revision(),
		Written: p.writes(), Ready: p.stages.objects,
		Controller: p.stages.Controller, Alive: p.stages.Alive,
		Cluster: cluster, Region: region, Account: p.account, NamespaceGoes: p.namespaceGoes,
		GoesTo: planning.GoesTo, Left: planning.Left,
	}
}

// writes are the definitions that this pass has written.
func (p *pass) writes() []removal.Write {
	writes := make([]removal.Write, 0, len(p.did.Written))
	for _, w := range p.did.Written {
		writes = append(writes, removal.Write{Ref: w.Ref, New: w.Action == plan.Create, CreatedAt: w.Object.GetCreationTimestamp()})
	}
	return writes
}

// ec2 asks for instances in a region, and does not wait long.
func (p *pass) ec2(ctx context.Context, region string) (teardown.EC2, error) {
	return p.dial(ctx, region)
}
