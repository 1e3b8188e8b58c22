package reconcile

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/step"
)

// end takes the nodes of a NodeSync away, and if that is being deleted the rest of what it manages; or, with onDelete: Orphan, leaves
// everything as it is. Git is not read.
func (r *reconciliation) end(ctx context.Context) (done, error) {
	if !r.sync.Drains() {
		return inSteps(ctx, r, done{}, []phaseStep[done]{{step.See, r.seesLive}, {step.Orphan, r.removes((*removal.Step).Orphan)}})
	}
	return inSteps(ctx, r, done{}, []phaseStep[done]{
		{step.Drainable, r.removes((*removal.Step).Drainable)},
		{step.See, r.seesLive},
		{step.SeeVanished, evaluates(r.seeVanished)},
		{step.VerifyCloud, observes(r.verifyCloud)},
		{step.SeeCollision, observes(r.seeCollision)},
		{step.SeeController, r.seeController},
		{step.MakePlan, evaluates(r.makePlan)},
		{step.Drain, r.removes((*removal.Step).Drain)},
		{step.FinishDrained, r.removes((*removal.Step).FinishDrained)},
	})
}

// seesLive reads what lives.
func (r *reconciliation) seesLive(ctx context.Context, d done) (_ done, err error) {
	d.evaluation.observed, err = r.seeLive(ctx)
	d.evaluation.Live = d.evaluation.observed.Live
	return d, err
}

// observes takes a step of the second phase.
func observes(do func(context.Context, revision, observed) (observed, error)) func(context.Context, done) (done, error) {
	return func(ctx context.Context, d done) (_ done, err error) {
		d.evaluation.observed, err = do(ctx, d.evaluation.revision, d.evaluation.observed)
		return d, err
	}
}

// evaluates takes a step of the third phase.
func evaluates(do func(context.Context, evaluation) (evaluation, error)) func(context.Context, done) (done, error) {
	return func(ctx context.Context, d done) (_ done, err error) {
		d.evaluation, err = do(ctx, d.evaluation)
		return d, err
	}
}

// addFinalizer comes before anything that a deletion would have to undo.
func (r *reconciliation) addFinalizer(context.Context) (done, error) {
	controllerutil.AddFinalizer(r.sync, v1alpha1.Finalizer)
	var d done
	d.Wait("finalizer", "taking charge")
	d.WakeBy(r.now)
	return d, nil
}

// finish takes our finalizer off if the deletion is concluded.
func (r *reconciliation) finish(out outcome) outcome {
	if out.Ended == "" {
		return out
	}
	controllerutil.RemoveFinalizer(r.sync, v1alpha1.Finalizer)
	out.Event(v1alpha1.ReasonDeleted, "the deletion is concluded: "+out.Ended)
	out.finished = true
	return out
}
