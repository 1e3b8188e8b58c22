package observe

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// DriftedClaim is a NodeClaim that Karpenter calls drifted.
type DriftedClaim struct {
	NodeClaim, Node, Pool string
	// Reason is Karpenter's, and Since when it came to it.
	Reason string
	Since  metav1.Time
}

// Drifted reads the NodeClaims that are drifted, and not on their way out yet.
func Drifted(ctx context.Context, reader client.Reader) ([]DriftedClaim, error) {
	claims := &karpv1.NodeClaimList{}
	if err := reader.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read which NodeClaims are drifted: %w", err)
	}
	var found []DriftedClaim
	for i := range claims.Items {
		claim := &claims.Items[i]
		for _, c := range claim.Status.Conditions {
			if c.Type == karpv1.ConditionTypeDrifted && c.Status == metav1.ConditionTrue && claim.DeletionTimestamp == nil {
				found = append(found, DriftedClaim{
					NodeClaim: claim.Name, Node: claim.Status.NodeName, Pool: claim.Labels[karpv1.NodePoolLabelKey],
					Reason: c.Reason, Since: c.LastTransitionTime,
				})
			}
		}
	}
	return found, nil
}
