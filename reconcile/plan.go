package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// makePlan weighs the Set against what lives.
func (p *pass) makePlan(ctx context.Context) error {
	all, err := p.nodeSyncs(ctx)
	if err != nil {
		return err
	}
	p.seeWithheld()
	if err := p.planBeside(ctx, all); err != nil {
		return err
	}
	if p.askWithheld(ctx) {
		if err := p.planBeside(ctx, all); err != nil {
			return err
		}
	}
	// What leaves our folder may be in that of a NodeSync that does not say so.
	if len(p.plan.Removals) > 0 && p.seeSuspended(ctx, all) {
		if err := p.planBeside(ctx, all); err != nil {
			return err
		}
	}
	p.awaitOthers(all)
	p.memories.weigh(p.name(), p.holdsNodes())
	for _, u := range p.plan.InUse {
		if stalls := u.Since.Add(p.stallAfter()); p.now.Before(stalls) {
			p.WakeBy(stalls)
		}
	}
	return nil
}

// planBeside makes the Plan, beside what is known of other NodeSyncs.
func (p *pass) planBeside(ctx context.Context, all []v1alpha1.NodeSync) error {
	policy, err := p.policy(ctx, all)
	if err != nil {
		return err
	}
	p.live.Memo = p.memory.compared
	if p.plan, err = plan.Make(ctx, p.want.Set, p.live, policy, p.want.Schema); err != nil {
		return err
	}
	p.memory.compared = p.plan.Memo
	return nil
}

// holdsNodes says whether something is held that may go when nodes have ended.
func (p *pass) holdsNodes() bool {
	return slices.ContainsFunc(p.plan.Changes, func(c plan.Change) bool { return c.Action == plan.Hold }) ||
		slices.ContainsFunc(p.plan.Removals, func(c plan.Candidate) bool {
			return c.Reason == plan.ReasonMaxDisruptedNodes || c.Reason == plan.ReasonMaxRemovedPools
		})
}

// nodeSyncs are all that exist, in every namespace. They are the cache's own and
// read only.
func (p *pass) nodeSyncs(ctx context.Context) ([]v1alpha1.NodeSync, error) {
	all := &v1alpha1.NodeSyncList{}
	if err := p.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read the NodeSyncs: %w", err)
	}
	return all.Items, nil
}

// policy is what the NodeSync allows, beside all NodeSyncs that exist.
func (p *pass) policy(ctx context.Context, all []v1alpha1.NodeSync) (plan.Policy, error) {
	policy := PolicyOf(p.sync, all, p.want.Set)
	policy.Applied = p.memory.forms.of
	policy.OtherSyncs, policy.Now = p.otherSyncs(all), p.now
	policy.StatusLost = policy.StatusLost || p.inDoubt(v1alpha1.ReasonStatusLost)
	policy.SetBack, policy.HistoryUnknown = p.inDoubt(v1alpha1.ReasonOlderRevision), p.inDoubt(v1alpha1.ReasonHistoryUnknown)
	var err error
	policy.Hosts, err = p.poolHosts(ctx)
	return policy, err
}

// PolicyOf is what a NodeSync allows for a Set; nil where it is deleted. all are the
// NodeSyncs that exist, in every namespace: the label of one that exists counts,
// wherever it lives. Nothing is known of what they have in Git.
func PolicyOf(sync *v1alpha1.NodeSync, all []v1alpha1.NodeSync, set *render.Set) plan.Policy {
	policy := plan.Policy{
		Owner:       plan.OwnerOf(sync.Namespace, sync.Name),
		Adopt:       sync.Spec.Adopt,
		Drift:       sync.Spec.Drift,
		Guard:       sync.Spec.Guard,
		NewRevision: set == nil || isNew(sync, set),
		StatusLost:  sync.Status.LastAppliedRevision == "",
		Released:    released(sync),
		Deleting:    !sync.DeletionTimestamp.IsZero(),
	}
	if doubt := sync.Status.Withheld; doubt != nil && set != nil && commitOf(doubt.Revision) == commitOf(set.Revision) {
		policy.StatusLost = policy.StatusLost || doubt.Reason == v1alpha1.ReasonStatusLost
		policy.SetBack, policy.HistoryUnknown = doubt.Reason == v1alpha1.ReasonOlderRevision, doubt.Reason == v1alpha1.ReasonHistoryUnknown
	}
	for i := range all {
		if owner := plan.OwnerOf(all[i].Namespace, all[i].Name); owner != policy.Owner {
			policy.OtherSyncs = append(policy.OtherSyncs, plan.OtherSync{Owner: owner})
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
	return sync.Status.LastAppliedInputs != set.Inputs.Fingerprint()
}

// released are the removals that a person has let go by name, in an annotation
// that holds UIDs between commas.
func released(sync *v1alpha1.NodeSync) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for uid := range strings.SplitSeq(sync.Annotations[v1alpha1.RemoveAnnotation], ",") {
		if uid = strings.TrimSpace(uid); uid != "" {
			uids[types.UID(uid)] = true
		}
	}
	return uids
}
