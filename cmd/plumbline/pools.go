package main

import (
	"cmp"
	"context"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// poolReport counts the nodes of one NodePool.
type poolReport struct {
	Name     string `json:"name"`
	Ready    bool   `json:"ready"`
	Nodes    int    `json:"nodes"`
	Draining int    `json:"draining"`
}

// poolsOf counts the NodeClaims of each pool that the NodeSync owns.
func poolsOf(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync) ([]poolReport, error) {
	kind, _ := render.KindOf(render.NodePool)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GVK)
	if err := c.List(ctx, list); err != nil {
		if apimeta.IsNoMatchError(err) {
			return []poolReport{}, nil
		}
		return nil, explain(err, "list NodePools")
	}
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list NodeClaims")
	}
	nodes, draining := map[string]int{}, map[string]int{}
	for i := range claims.Items {
		pool := claims.Items[i].Labels[karpv1.NodePoolLabelKey]
		nodes[pool]++
		if claims.Items[i].DeletionTimestamp != nil {
			draining[pool]++
		}
	}
	pools := []poolReport{}
	owner := plan.OwnerOf(sync.Namespace, sync.Name)
	for i := range list.Items {
		if pool := &list.Items[i]; owner.Owns(pool) {
			name := pool.GetName()
			pools = append(pools, poolReport{Name: name, Ready: observe.Ready(plan.NewObject(pool)).Ready, Nodes: nodes[name], Draining: draining[name]})
		}
	}
	slices.SortFunc(pools, func(a, b poolReport) int { return cmp.Compare(a.Name, b.Name) })
	return pools, nil
}

// notable sorts pools by what a person looks for: what is not Ready, what drains,
// what is large.
func notable(pools []poolReport) []poolReport {
	sorted := slices.Clone(pools)
	rank := func(p poolReport) int {
		switch {
		case !p.Ready:
			return 0
		case p.Draining > 0:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(sorted, func(a, b poolReport) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Nodes, a.Nodes))
	})
	return sorted
}
