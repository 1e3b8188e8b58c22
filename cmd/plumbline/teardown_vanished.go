package main

import (
	"context"
	"maps"
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
	applied, err := c.appliedPools(ctx, sync)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(applied)) {
		if l.knows(name) {
			continue
		}
		gone := leavingObject{Kind: render.NodePool, Name: name, Gone: true}
		for i := range claims {
			if poolOf(&claims[i]) == name && madeBy(&claims[i], applied[name]) {
				l.count(&gone, &claims[i])
			}
		}
		if gone.NodeClaims > 0 {
			l.vanished[name] = applied[name]
			l.Objects = append(l.Objects, gone)
		}
	}
	return nil
}

// appliedPools are the NodePools that a NodeSync has applied, by name with the UID of each, and whose nodes are not
// known to be gone; none where there is no NodeSync.
func (c *cluster) appliedPools(ctx context.Context, sync *v1alpha1.NodeSync) (map[string]types.UID, error) {
	pools := map[string]types.UID{}
	if sync == nil {
		return pools, nil
	}
	applied, err := inventory.Load(ctx, c, sync)
	if err != nil {
		return nil, explain(err, "find the NodePools that were applied")
	}
	for ref, uid := range applied.Record.Objects {
		if ref.Kind == render.NodePool {
			pools[ref.Name] = uid
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
