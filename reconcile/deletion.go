package reconcile

import (
	"context"
	"fmt"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
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
		"drain the nodes: %s: install Karpenter's CRDs again, or set onDelete: Orphan to keep the nodes", established.Message)}
}
