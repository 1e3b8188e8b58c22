package main

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/inventory"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// addVanished adds the NodePools that the NodeSync has applied, and that the cluster has no more, of which
// NodeClaims are left: with the CRD of NodePools all of these go, and Karpenter's finalizers keep the NodeClaims.
func (c *cluster) addVanished(ctx context.Context, l *teardownPlan, sync *v1alpha1.NodeSync, claims []karpv1.NodeClaim) error {
	if sync.UID == "" || !slices.ContainsFunc(claims, func(claim karpv1.NodeClaim) bool { return !l.knows(poolOf(&claim)) }) {
		return nil
	}
	applied, err := inventory.Load(ctx, c, sync)
	if err != nil {
		return explain(err, "find the NodePools that have vanished")
	}
	for _, entry := range inventory.Vanished(applied.Record, nil) {
		if entry.Ref.Kind != render.NodePool || l.knows(entry.Ref.Name) {
			continue
		}
		gone := leavingObject{Kind: render.NodePool, Name: entry.Ref.Name, Gone: true}
		for i := range claims {
			if poolOf(&claims[i]) == gone.Name && madeBy(&claims[i], entry.UID) {
				l.count(&gone, &claims[i])
			}
		}
		if gone.NodeClaims > 0 {
			l.vanished[gone.Name] = entry.UID
			l.Objects = append(l.Objects, gone)
		}
	}
	return nil
}

// appliedPools are the names of the NodePools that a NodeSync has applied, and whose nodes are not known to be gone;
// none where there is no NodeSync.
func (c *cluster) appliedPools(ctx context.Context, sync *v1alpha1.NodeSync) (map[string]bool, error) {
	pools := map[string]bool{}
	if sync == nil {
		return pools, nil
	}
	applied, err := inventory.Load(ctx, c, sync)
	if err != nil {
		return nil, explain(err, "find the NodePools that were applied")
	}
	for ref := range applied.Record.Objects {
		if ref.Kind == render.NodePool {
			pools[ref.Name] = true
		}
	}
	return pools, nil
}

// knows says whether the cluster has a NodePool, of any owner.
func (l *teardownPlan) knows(pool string) bool {
	return l.stays.Pools[pool] || slices.ContainsFunc(l.Objects, func(o leavingObject) bool { return o.Kind == render.NodePool && o.Name == pool })
}

// withoutOthers leaves out the NodeClaims that another NodePool has made, of the name of one that has vanished.
func (l *teardownPlan) withoutOthers(claims []karpv1.NodeClaim) []karpv1.NodeClaim {
	return slices.DeleteFunc(claims, func(claim karpv1.NodeClaim) bool {
		uid, vanished := l.vanished[poolOf(&claim)]
		return vanished && !madeBy(&claim, uid)
	})
}

func poolOf(claim *karpv1.NodeClaim) string { return claim.Labels[karpv1.NodePoolLabelKey] }

// madeBy says whether a NodePool has made a NodeClaim, by its owner.
func madeBy(claim *karpv1.NodeClaim, pool types.UID) bool {
	for _, owner := range claim.OwnerReferences {
		if owner.Kind == render.NodePool {
			return owner.UID == pool
		}
	}
	return false
}

// count counts a NodeClaim of a NodePool that leaves.
func (l *teardownPlan) count(pool *leavingObject, claim *karpv1.NodeClaim) {
	pool.NodeClaims++
	l.NodeClaims++
	if claim.Status.NodeName != "" {
		l.Nodes++
		l.claims = append(l.claims, plan.NodeClaim{Name: claim.Name, Pool: pool.Name, Node: claim.Status.NodeName})
	}
}
