package reconcile

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/status"
)

// continueRecord continues the record of this cluster with the one in Git, and reports in the status whether it could be
// pushed.
func (r *reconciliation) continueRecord(work *fetch.Step) {
	promoted := r.sync.Status.Promotion
	if r.sync.Spec.Promotion == nil || promoted == nil {
		return
	}
	own, read := work.OwnRecord()
	publisher := &r.memory.publisher
	publisher.Begin(fetch.MemberOf(r.sync), own, read)
	state := publisher.State()
	if state.Ref != "" {
		promoted.RecordRef = state.Ref
	}
	failure := state.Failure
	if unread := work.Unread(); unread != nil && failure == "" {
		failure = "the records of other clusters cannot be read: " + finding.Bounded(r.memory.conclude.Hide(unread.Error()), maxRecordFailure)
	}
	if failure != "" && failure != promoted.RecordFailure {
		work.Warn(v1alpha1.ReasonRecordNotShared, failure)
	}
	promoted.RecordFailure = failure
}

// maxRecordFailure limits a message about records, in bytes.
const maxRecordFailure = 512

// publishRecord records what became of the commit that this cluster has taken, and pushes the record when it is due. It
// blocks on no host.
func (r *reconciliation) publishRecord(ctx context.Context, out *outcome, concluded *status.Step, result ctrl.Result) ctrl.Result {
	promoted := r.sync.Status.Promotion
	if r.sync.Spec.Promotion == nil || promoted == nil || out.mode != normal {
		return result
	}
	publisher, work := &r.memory.publisher, r.sourceStep()
	if promoted.Taken != "" && concluded.Commit == promoted.Taken {
		if set := out.evaluation.Desired.Set; set != nil {
			r.memory.fetch.Rendered(promoted.Taken, set.Inputs)
		}
		rolledOut, failed := concluded.Outcome()
		publisher.Note(promotion.Observed{
			Commit: promoted.Taken, RolledOut: rolledOut, Failed: failed, Effect: r.effect(&out.done), Emergency: promoted.EmergencySigner,
			Reverted: promoted.By == string(promotion.PassedRevert),
		}, r.now)
	}
	var found finding.Findings
	publisher.Push(ctx, fetch.Push{
		Sign: work.SignRecord(), Send: work.SendRecord(), StillLeader: r.Settings.StillLeader, Known: promoted.RecordRef,
		SilentAfter: work.SilentAfter(), Hide: r.memory.conclude.Hide, Done: func() { r.Enqueue(r.name()) }, Now: r.now,
	}, &found)
	if at := found.WakeAt; !at.IsZero() {
		if wait := max(at.Sub(r.now), finding.Soon); result.RequeueAfter == 0 || wait < result.RequeueAfter {
			result.RequeueAfter = wait
		}
	}
	return result
}

// effect returns what is known of the effect of the commit on nodes.
func (r *reconciliation) effect(d *done) promotion.Effect {
	ev := &d.evaluation
	e := promotion.EffectOf(ev.Plan.Plan, ev.Live, r.before.Status.Karpenter, ev.Desired.Karpenter)
	if rolls := r.sync.Status.Rollout; rolls != nil {
		e.Nodes = max(e.Nodes, int(rolls.Nodes))
	}
	return e
}
