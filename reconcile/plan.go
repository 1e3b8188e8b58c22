package reconcile

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// makePlan weighs the Set against what lives.
func (p *pass) makePlan(ctx context.Context) error {
	policy, err := p.policy(ctx)
	if err != nil {
		return err
	}
	p.live.Memo = p.memory.compared
	if p.plan, err = plan.Make(ctx, p.set, p.live, policy, p.schema); err != nil {
		return err
	}
	p.memory.compared = p.plan.Memo
	return nil
}

// policy is what the NodeSync allows, beside the other NodeSyncs that exist.
func (p *pass) policy(ctx context.Context) (plan.Policy, error) {
	all := &v1alpha1.NodeSyncList{}
	if err := p.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return plan.Policy{}, fmt.Errorf("read the NodeSyncs: %w", err)
	}
	revision := plan.RevisionDeleted
	if p.snapshot != nil {
		revision = p.snapshot.Revision
	}
	policy := PolicyOf(p.sync, all.Items, revision)
	var err error
	policy.Hosts, err = p.poolHosts(ctx)
	return policy, err
}

// PolicyOf is what a NodeSync allows at a revision. all are the NodeSyncs that
// exist, in every namespace: the label of one that exists counts, wherever it
// lives.
func PolicyOf(sync *v1alpha1.NodeSync, all []v1alpha1.NodeSync, revision string) plan.Policy {
	policy := plan.Policy{
		Owner:       plan.OwnerOf(sync.Namespace, sync.Name),
		Adopt:       sync.Spec.Adopt,
		Drift:       sync.Spec.Drift,
		Guard:       sync.Spec.Guard,
		NewRevision: sync.Status.LastAppliedRevision != revision,
		StatusLost:  sync.Status.LastAppliedRevision == "",
		Released:    released(sync),
		Deleting:    !sync.DeletionTimestamp.IsZero(),
	}
	for i := range all {
		if owner := plan.OwnerOf(all[i].Namespace, all[i].Name); owner != policy.Owner {
			policy.OtherSyncs = append(policy.OtherSyncs, owner)
		}
	}
	return policy
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
