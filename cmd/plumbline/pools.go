package main

import (
	"context"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// definitionsOf are a cluster's objects of a kind, of any owner; none where it does not serve the kind.
func definitionsOf(ctx context.Context, c client.Reader, kind render.Kind) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GVK)
	if err := c.List(ctx, list); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list "+kind.GVK.Kind+"s")
	}
	return list.Items, nil
}

// poolsWithClaims reads the pools that a NodeSync owns, and the NodeClaims of all pools, by pool.
func poolsWithClaims(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync) (pools []*unstructured.Unstructured, claims map[string][]*karpv1.NodeClaim, err error) {
	kind, _ := render.KindOf(render.NodePool)
	objects, err := definitionsOf(ctx, c, kind)
	if err != nil {
		return nil, nil, err
	}
	owner := plan.OwnerOf(sync.Namespace, sync.Name)
	for i := range objects {
		if pool := &objects[i]; owner.Owns(pool) {
			pools = append(pools, pool)
		}
	}
	all := &karpv1.NodeClaimList{}
	if err := c.List(ctx, all); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, nil, explain(err, "list NodeClaims")
	}
	claims = map[string][]*karpv1.NodeClaim{}
	for i := range all.Items {
		pool := poolOf(&all.Items[i])
		claims[pool] = append(claims[pool], &all.Items[i])
	}
	return pools, claims, nil
}

// poolOf is the NodePool of a NodeClaim.
func poolOf(claim *karpv1.NodeClaim) string { return claim.Labels[karpv1.NodePoolLabelKey] }

// poolsOf counts the NodeClaims of each pool that the NodeSync owns.
func poolsOf(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync) ([]summary.Pool, error) {
	owned, claims, err := poolsWithClaims(ctx, c, sync)
	if err != nil {
		return nil, err
	}
	return summary.Pools(owned, claims), nil
}
