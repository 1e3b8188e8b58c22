package teardown

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// strayEnds ends what a message says of NodeClaims before what it says of instances.
const strayEnds = " to end its node; "

// nameStrays says of removals that wait for instances which of these nobody ends: those of
// NodeClaims whose label of the pool was changed by hand, by which Karpenter and plumbline
// know whose they are.
func (d *drive) nameStrays(ctx context.Context) error {
	var all *karpv1.NodeClaimList
	for _, it := range d.open() {
		if _, rest, found := strings.Cut(it.after.Message, strayEnds); found {
			it.after.Message = rest
		}
		if it.after.Reason != ReasonInstancesLeaving {
			continue
		}
		if all == nil {
			all = &karpv1.NodeClaimList{}
			if err := d.Cache.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil && !absent(err) {
				return fmt.Errorf("find the NodeClaims of instances that run on: %w", err)
			}
		}
		if stray := it.stray(all.Items); stray != nil {
			it.after.Message = fmt.Sprintf("NodeClaim/%s has %s, and its label %s was changed by hand to %q: set it to %s again, or delete the NodeClaim%s",
				stray.Name, cloud.InstanceID(stray.Status.ProviderID), karpv1.NodePoolLabelKey, stray.Labels[karpv1.NodePoolLabelKey], it.before.Name, strayEnds) + it.after.Message
		}
	}
	return nil
}

// stray is the first NodeClaim by name that has an instance of the removal, or was made by
// its pool, and is labelled as another pool's; nil where there is none.
func (it *item) stray(claims []karpv1.NodeClaim) *karpv1.NodeClaim {
	var found *karpv1.NodeClaim
	for i := range claims {
		c := &claims[i]
		owner, _ := poolOf(c)
		_, noted := it.seen.Noted[c.Status.ProviderID]
		mine := owner == it.before.UID || noted && c.Status.ProviderID != ""
		relabelled := c.Labels[karpv1.NodePoolLabelKey] != it.before.Name // else the pool was recreated under its name
		known := slices.ContainsFunc(it.seen.NodeClaims, func(k Claim) bool { return k.UID == c.UID })
		if mine && relabelled && !known && c.DeletionTimestamp == nil && (found == nil || c.Name < found.Name) {
			found = c
		}
	}
	return found
}
