package reconcile

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/step"
)

// drainOrDelete terminates the nodes of a NodeSync and, if it is being deleted, removes everything else that it
// manages; or, with onDelete: Orphan, leaves everything as it is. Git is not read.
func (r *reconciliation) drainOrDelete(ctx context.Context) (done, error) {
	if !r.sync.DrainsNodes() {
		return step.All(ctx, r.trace, done{},
			[]step.Of[done]{
				{Name: step.See, Do: r.readLive},
				{Name: step.EndProtection, Do: r.endProtection},
				{Name: step.Orphan, Do: r.runRemovalStep((*removal.Step).Orphan)},
			})
	}
	return step.All(ctx, r.trace, done{}, []step.Of[done]{
		{Name: step.Drainable, Do: r.runRemovalStep((*removal.Step).Drainable)},
		{Name: step.See, Do: r.readLive},
		{Name: step.EndProtection, Do: r.endProtection},
		{Name: step.SeeVanished, Do: r.planStep(evaluate.Inputs.SeeVanished)},
		{Name: step.VerifyCloud, Do: observeStep(r.verifyCloud)},
		{Name: step.SeeCollision, Do: observeStep(r.observeCollision)},
		{Name: step.SeeController, Do: r.observeController},
		{Name: step.MakePlan, Do: r.planStep(evaluate.Inputs.MakePlan)},
		{Name: step.Drain, Do: r.runRemovalStep((*removal.Step).Drain)},
		{Name: step.FinishDrained, Do: r.runRemovalStep((*removal.Step).FinishDrained)},
	})
}

// readLive reads the live objects.
func (r *reconciliation) readLive(ctx context.Context, d done) (_ done, err error) {
	d.evaluation.observed, err = r.observeLive(ctx)
	d.evaluation.Live = d.evaluation.observed.Live
	return d, err
}

// observeStep runs a step of the second phase.
func observeStep(do func(context.Context, revision, observed) (observed, error)) func(context.Context, done) (done, error) {
	return func(ctx context.Context, d done) (_ done, err error) {
		d.evaluation.observed, err = do(ctx, d.evaluation.revision, d.evaluation.observed)
		return d, err
	}
}

// planStep runs a step of the third phase.
func (r *reconciliation) planStep(do func(evaluate.Inputs, context.Context, evaluate.Evaluation) (evaluate.Evaluation, error)) func(context.Context, done) (done, error) {
	return func(ctx context.Context, d done) (_ done, err error) {
		d.evaluation, err = r.continueEvaluation(ctx, d.evaluation, func(ctx context.Context, in evaluate.Inputs, ev evaluate.Evaluation) (evaluate.Evaluation, error) {
			return do(in, ctx, ev)
		})
		return d, err
	}
}

// addFinalizer runs before anything that a deletion would have to undo.
func (r *reconciliation) addFinalizer(context.Context) (done, error) {
	controllerutil.AddFinalizer(r.sync, v1alpha1.Finalizer)
	var d done
	d.Wait("finalizer", "taking charge")
	d.WakeBy(r.now)
	return d, nil
}

// finish removes our finalizer if the deletion is complete.
func (r *reconciliation) finish(out outcome) outcome {
	if out.Ended == "" {
		return out
	}
	controllerutil.RemoveFinalizer(r.sync, v1alpha1.Finalizer)
	out.Event(v1alpha1.ReasonDeleted, "the deletion is concluded: "+out.Ended)
	out.finished = true
	return out
}
