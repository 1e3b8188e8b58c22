package conclude

import (
	"context"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// saveLess writes as little as there has to be, where the API server refuses the whole
// status whenever it is tried: else the status of before would go on being believed.
// What removals are recorded by is kept whole. Where that is what is too much, no new
// removal is recorded, so that none of them begins.
func (s *Step) saveLess(ctx context.Context, refused error) error {
	whole := *s.Sync.Status.DeepCopy()
	s.Notes, s.WakeAt = nil, s.Began.Add(s.Sync.GetRetryInterval())
	s.Fault = s.notStored(refused, "the removals are recorded without their messages")
	s.Sync.Status = s.least(whole, whole.Removals)
	err := s.writeStatus(ctx)
	if fault.Unstorable(err) {
		unrecorded := len(whole.Removals) - len(s.Before.Status.Removals)
		s.Fault = s.notStored(refused, "removals do not begin, as they cannot be recorded ("+english.Plural(max(unrecorded, 0), "removal", "")+"): remove fewer entries in one commit")
		s.Sync.Status = s.least(whole, s.Before.Status.Removals)
		s.Sync.Status.RecentRemovals = s.Before.Status.RecentRemovals
		// What is not recorded is in doubt still, if it was.
		s.Sync.Status.LastAppliedRevision, s.Sync.Status.LastAppliedInputs = s.Before.Status.LastAppliedRevision, s.Before.Status.LastAppliedInputs
		s.Sync.Status.Withheld, s.Sync.Status.Held = s.Before.Status.Withheld, nil
		err = s.writeStatus(ctx)
	}
	if !denied(err) {
		s.report(ctx)
	}
	return s.stale(err)
}

// notStored says that a status was refused, and what is in the cluster instead.
func (s *Step) notStored(refused error, instead string) *fault.Error {
	return fault.StatusNotWritten(fmt.Errorf(
		"the API server refuses the status, and less of it was written; %s: %s", instead, finding.Bounded(s.Memory.Hide(refused.Error()), maxRemovalMessage)))
}

// least is the least of a status that says the truth: the records that passes go by, and that the rest
// could not be written.
func (s *Step) least(whole v1alpha1.NodeSyncStatus, removals []v1alpha1.Removal) v1alpha1.NodeSyncStatus {
	least := v1alpha1.NodeSyncStatus{
		ReconcileRequestStatus: whole.ReconcileRequestStatus,
		ObservedGeneration:     whole.ObservedGeneration,
		LastAttemptedRevision:  whole.LastAttemptedRevision,
		LastAppliedRevision:    whole.LastAppliedRevision,
		PartlyAppliedRevision:  whole.PartlyAppliedRevision,
		LastAppliedInputs:      whole.LastAppliedInputs,
		Artifacts:              whole.Artifacts,
		Withheld:               whole.Withheld,
		UsedReleases:           whole.UsedReleases,
		Held:                   whole.Held,
		Approved:               whole.Approved,
		UsedApprovals:          whole.UsedApprovals,
		UsedGitApprovals:       whole.UsedGitApprovals,
		LastVerified:           whole.LastVerified,
		Karpenter:              whole.Karpenter,
		Rollout:                whole.Rollout,
		PoolRollouts:           whole.PoolRollouts,
		LaunchFailing:          whole.LaunchFailing,
		Removals:               slices.Clone(removals),
		RecentRemovals:         whole.RecentRemovals,
		RecentTerminations:     whole.RecentTerminations,
		OpenRemovals:           whole.OpenRemovals,
		Reported:               s.Before.Status.Reported,
		Notified:               whole.Notified,
	}
	shorten(&least)
	// From the conditions of before, so that what stays keeps its time.
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Generation: s.Sync.Generation}}
	for _, kind := range []string{meta.ReadyCondition, meta.ReconcilingCondition, v1alpha1.CloudVerifiedCondition} {
		if c := conditions.Get(s.Before, kind); c != nil {
			c.Message = finding.Bounded(c.Message, maxRemovalMessage)
			sync.Status.Conditions = append(sync.Status.Conditions, *c)
		}
	}
	v := verdictOf(s.Fault)
	conditions.MarkFalse(sync, meta.ReadyCondition, v.Reason, "%s", v.Message)
	conditions.MarkReconciling(sync, meta.ProgressingWithRetryReason, "%s", v.Message)
	least.Conditions = sync.Status.Conditions
	return least
}

// shorten cuts the messages in records: those that a pass finds again are left out.
func shorten(s *v1alpha1.NodeSyncStatus) {
	for i := range s.Removals {
		s.Removals[i].Message = ""
	}
	if s.Held != nil {
		s.Held.Message = ""
	}
	if s.Rollout != nil {
		s.Rollout.Message = ""
	}
	for i := range s.LaunchFailing {
		s.LaunchFailing[i].Message = finding.Bounded(s.LaunchFailing[i].Message, leastMessage)
	}
	boundRollouts(s.PoolRollouts, leastMessage)
}
