package reconcile

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
)

// deletion is what concludes a NodeSync that is being deleted: its nodes are
// left, or taken away. A suspended one is concluded, too.
func (p *pass) deletion() []step {
	if p.sync.Spec.OnDelete == v1alpha1.OnDeleteDrain {
		return []step{
			{stepSeeNamespace, p.seeNamespace},
			{stepRecordable, p.recordable},
			{stepServedOrGone, p.servedOrGone},
			{stepSee, p.see},
			{stepSeeVanished, p.seeVanished},
			{stepVerifyCloud, p.verifyCloud},
			{stepSeeCollision, p.seeCollision},
			{stepSeeController, p.seeController},
			{stepDrain, p.drain},
			{stepFinishDrained, p.finishDrained},
		}
	}
	return []step{{stepSeeNamespace, p.seeNamespace}, {stepSee, p.see}, {stepOrphan, p.orphan}}
}

// seeController reads whether Karpenter's controller is alive, where there has
// been one.
func (p *pass) seeController(ctx context.Context) error {
	if p.sync.Status.Karpenter == nil {
		return nil
	}
	var err error
	p.stages.Controller, p.stages.Alive, err = p.chartStep().Controller(ctx)
	return err
}

// servedOrGone ends the pass while some of Karpenter's kinds are served and some
// are not: nodes may be left whose pool cannot be seen. Where none is, no object
// is left, and EC2 says whether an instance is.
func (p *pass) servedOrGone(ctx context.Context) error {
	established, err := p.view.Established(ctx)
	if err != nil || established.Ready {
		return err
	}
	missing, err := p.view.MissingCRDs(ctx)
	if err != nil {
		return err
	}
	if len(missing) == len(cluster.CRDNames()) {
		return nil
	}
	return &fault.Error{Class: fault.Waiting, Reason: v1alpha1.ReasonWaiting, Err: fmt.Errorf(
		"drain the nodes: %s: install Karpenter's CRDs again, or set onDelete: Orphan to leave the nodes alone", established.Message)}
}

// drain takes everything away that is ours. It was said by name, so that no
// guard weighs it.
func (p *pass) drain(ctx context.Context) error {
	planning := p.policyStep()
	var err error
	p.plan, err = planning.MakeEmpty(ctx)
	p.Join(planning.Findings)
	if err != nil {
		return err
	}
	if err := p.takeBack(ctx); err != nil {
		return err
	}
	p.waitForOthers()
	p.recordCandidates()
	// Everything goes, so that nothing arrives, no pool takes the pods, and there is
	// nothing to wait for between one node and the next.
	open := func(v1alpha1.Removal) teardown.Gate { return teardown.Gate{Open: true} }
	return p.drive(ctx, terms{arrivals: open, successor: open, pace: teardown.Pace{AtOnce: true}})
}

// finishDrained lets the NodeSync go once nothing of it is left: no object, seen
// past the cache, and no instance in EC2.
func (p *pass) finishDrained(ctx context.Context) error {
	if len(p.sync.Status.Removals) > 0 {
		return nil
	}
	if waits, err := p.awaitRelabelled(ctx); err != nil || waits {
		return err
	}
	if done, err := p.nothingLives(ctx); err != nil || !done {
		return err
	}
	how, err := p.nothingRuns(ctx)
	if err != nil || how == "" {
		return err
	}
	if err := p.memory.inventory.Drop(ctx, p.Client); err != nil {
		p.memory.inventory = nil
		return err
	}
	p.finish(how)
	return nil
}

// nothingLives says whether every object is gone, seen past the cache.
func (p *pass) nothingLives(ctx context.Context) (bool, error) {
	if !p.served {
		return true, nil
	}
	live, err := observe.Live(ctx, p.Uncached)
	if err != nil {
		return false, err
	}
	left, err := p.policyStep().Left(ctx, live)
	if err != nil {
		return false, err
	}
	if len(left.Kept) > 0 {
		p.Wait("NodeSync/"+left.Kept[0].By, left.Kept[0].Message)
		return false, nil
	}
	if len(left.Removals) > 0 {
		p.Wait(left.Removals[0].Ref.String(), "it is still there")
		p.wakeNow()
		return false, nil
	}
	return true, nil
}

// finish takes our finalizer off: the deletion is concluded.
func (p *pass) finish(how string) {
	controllerutil.RemoveFinalizer(p.sync, v1alpha1.Finalizer)
	p.Event("Deleted", "the deletion is concluded: "+how)
	p.Finished = true
}
