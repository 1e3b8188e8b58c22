package observe

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Live is that of Definitions, for who reads once.
func Live(ctx context.Context, reader client.Reader) (plan.Live, error) {
	return (*Definitions)(nil).Live(ctx, reader)
}

// Live reads what lives: all definitions, of any owner, and the NodeClaims.
// The CRDs have to be served. The objects are the cache's own and read only.
func (d *Definitions) Live(ctx context.Context, reader client.Reader) (live plan.Live, err error) {
	if live.Objects, err = d.read(ctx, reader); err != nil {
		return live, err
	}
	claims := &karpv1.NodeClaimList{}
	if err := reader.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil {
		return live, fmt.Errorf("read the NodeClaims: %w", err)
	}
	live.NodeClaims = make([]plan.NodeClaim, 0, len(claims.Items))
	for i := range claims.Items {
		live.NodeClaims = append(live.NodeClaims, NodeClaim(&claims.Items[i]))
	}
	return live, nil
}

// NodeClaim cuts a NodeClaim down to what a Plan asks about.
func NodeClaim(claim *karpv1.NodeClaim) plan.NodeClaim {
	n := plan.NodeClaim{
		Name:        claim.Name,
		UID:         claim.UID,
		Pool:        claim.Labels[karpv1.NodePoolLabelKey],
		ProviderID:  claim.Status.ProviderID,
		Image:       claim.Status.ImageID,
		Node:        claim.Status.NodeName,
		Deleting:    claim.DeletionTimestamp != nil,
		Disrupted:   holds(claim, karpv1.ConditionTypeDisruptionReason),
		DriftReason: whyDrifted(claim),
		Labels:      labelsOf(claim),
		Hashes:      hashesOf(claim),
		Created:     claim.CreationTimestamp.Time,
		Launch:      launchOf(claim),
		Initialized: claim.Status.NodeName != "" && !uninitialized(claim),
	}
	n.Drifted = n.DriftReason != ""
	if n.Deleting {
		n.Deleted = claim.DeletionTimestamp.Time
	}
	for _, owner := range claim.OwnerReferences {
		if owner.Kind == render.NodePool {
			n.PoolUID = owner.UID
		}
	}
	if claim.Spec.NodeClassRef != nil {
		n.Class = claim.Spec.NodeClassRef.Name
	}
	return n
}

// whyDrifted is Karpenter's reason for which a NodeClaim is outdated; empty where it is not.
func whyDrifted(claim *karpv1.NodeClaim) string {
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeDrifted && c.Status == metav1.ConditionTrue {
			return cmp.Or(c.Reason, karpv1.ConditionTypeDrifted)
		}
	}
	return ""
}

// holds says whether a condition of a NodeClaim is True. DisruptionReason is where Karpenter
// has ended it by itself (sigs.k8s.io/karpenter pkg/controllers/disruption/queue.go).
func holds(claim *karpv1.NodeClaim, condition string) bool {
	for _, c := range claim.Status.Conditions {
		if c.Type == condition {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}
