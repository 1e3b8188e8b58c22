package observe

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Claim is a NodeClaim as far as a change of Karpenter may touch it.
type Claim struct {
	NodeClaim, Node, Pool string
	Created               metav1.Time
	// Ending says that it is being deleted, and EndingSince since when.
	Ending      bool
	EndingSince metav1.Time
	// Drifted is why Karpenter calls it drifted, and Since when it came to it; empty
	// where it does not.
	Drifted string
	Since   metav1.Time
}

// Claims reads all NodeClaims.
func Claims(ctx context.Context, reader client.Reader) ([]Claim, error) {
	claims := &karpv1.NodeClaimList{}
	if err := reader.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read which NodeClaims are drifted: %w", err)
	}
	found := make([]Claim, 0, len(claims.Items))
	for i := range claims.Items {
		claim := &claims.Items[i]
		one := Claim{
			NodeClaim: claim.Name, Node: claim.Status.NodeName, Pool: claim.Labels[karpv1.NodePoolLabelKey],
			Created: claim.CreationTimestamp, Ending: claim.DeletionTimestamp != nil,
		}
		if one.Ending {
			one.EndingSince = *claim.DeletionTimestamp
		}
		for _, c := range claim.Status.Conditions {
			if c.Type == karpv1.ConditionTypeDrifted && c.Status == metav1.ConditionTrue {
				one.Drifted, one.Since = c.Reason, c.LastTransitionTime
			}
		}
		found = append(found, one)
	}
	return found, nil
}
