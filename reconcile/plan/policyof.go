package plan

import (
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// PolicyOf is what a NodeSync allows for a Set; nil where it is deleted. all are the
// NodeSyncs that exist, in every namespace: the label of one that exists counts,
// wherever it lives. Nothing is known of what they have in Git.
func PolicyOf(sync *v1alpha1.NodeSync, all []v1alpha1.NodeSync, set *render.Set) Policy {
	policy := Policy{
		Owner:       OwnerOf(sync.Namespace, sync.Name),
		Adopt:       sync.Spec.Adopt,
		Drift:       sync.Spec.Drift,
		Guard:       sync.Spec.Guard,
		Policies:    sync.Spec.Policies,
		NewRevision: set == nil || isNew(sync, set),
		StatusLost:  sync.Status.LastAppliedRevision == "",
		Emergency:   sync.Annotations[v1alpha1.EmergencyAnnotation],
		Released:    released(sync),
		UsedUp:      usedUp(sync),
		Approved:    sync.Status.Approved,
		Deleting:    !sync.DeletionTimestamp.IsZero(),
		Orphans:     sync.Spec.Removal.Strategy == v1alpha1.RemovalOrphan,
		Brakes:      sync.Spec.Rollout.OnFailure != v1alpha1.RolloutReport,
		Braked:      sync.Status.BrakedPools(),
		ConfigFile:  render.ConfigFile(sync.Spec.Path),
	}
	if doubt := sync.Status.Withheld; doubt != nil && set != nil && render.CommitOf(doubt.Revision) == render.CommitOf(set.Revision) {
		policy.StatusLost = policy.StatusLost || doubt.Reason == v1alpha1.ReasonStatusLost
		policy.SetBack, policy.HistoryUnknown = doubt.Reason == v1alpha1.ReasonOlderRevision, doubt.Reason == v1alpha1.ReasonHistoryUnknown
	}
	for i := range all {
		if owner := OwnerOf(all[i].Namespace, all[i].Name); owner != policy.Owner {
			policy.OtherSyncs = append(policy.OtherSyncs, OtherSync{Owner: owner})
		}
	}
	return policy
}

// isNew says whether a Set was made of anything else than the one that was applied
// last. A status of before inputs were noted goes by the revision.
func isNew(sync *v1alpha1.NodeSync, set *render.Set) bool {
	if sync.Status.LastAppliedInputs == "" {
		return sync.Status.LastAppliedRevision != set.Revision
	}
	return sync.Status.LastAppliedInputs != set.Fingerprint()
}
