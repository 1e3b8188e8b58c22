package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Nodes int    `json:"nodes"`
	// Drifted are nodes that Karpenter is going to replace, as their pool or class has changed.
	Drifted  int `json:"drifted"`
	Draining int `json:"draining"`
	// LimitUsed is how much is used of the limit that is used most; empty without one.
	LimitUsed string      `json:"limitUsed,omitempty"`
	Created   metav1.Time `json:"created"`
}

// poolsWithClaims reads the pools that a NodeSync owns, and the NodeClaims of all pools, by pool.
func poolsWithClaims(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync) (pools []*unstructured.Unstructured, claims map[string][]*karpv1.NodeClaim, err error) {
	kind, _ := render.KindOf(render.NodePool)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GVK)
	if err := c.List(ctx, list); err != nil {
		if apimeta.IsNoMatchError(err) {
			return nil, nil, nil
		}
		return nil, nil, explain(err, "list NodePools")
	}
	owner := plan.OwnerOf(sync.Namespace, sync.Name)
	for i := range list.Items {
		if pool := &list.Items[i]; owner.Owns(pool) {
			pools = append(pools, pool)
		}
	}
	all := &karpv1.NodeClaimList{}
	if err := c.List(ctx, all); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, nil, explain(err, "list NodeClaims")
	}
	claims = map[string][]*karpv1.NodeClaim{}
	for i := range all.Items {
		pool := all.Items[i].Labels[karpv1.NodePoolLabelKey]
		claims[pool] = append(claims[pool], &all.Items[i])
	}
	return pools, claims, nil
}

// poolsOf counts the NodeClaims of each pool that the NodeSync owns.
func poolsOf(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync) ([]poolReport, error) {
	owned, claims, err := poolsWithClaims(ctx, c, sync)
	if err != nil {
		return nil, err
	}
	pools := []poolReport{}
	for _, pool := range owned {
		report := poolReport{
			Name: pool.GetName(), Created: pool.GetCreationTimestamp(),
			Ready: observe.Ready(plan.NewObject(pool)).Ready, LimitUsed: limitUsed(pool),
			Nodes: len(claims[pool.GetName()]),
		}
		for _, claim := range claims[pool.GetName()] {
			if claim.DeletionTimestamp != nil {
				report.Draining++
			} else if claim.StatusConditions().Get(karpv1.ConditionTypeDrifted).IsTrue() {
				report.Drifted++
			}
		}
		pools = append(pools, report)
	}
	slices.SortFunc(pools, func(a, b poolReport) int { return cmp.Compare(a.Name, b.Name) })
	return pools, nil
}

// limitUsed says how much is used of the limit that is used most: 37% of 100 cpu.
func limitUsed(pool *unstructured.Unstructured) string {
	limits, _, _ := unstructured.NestedMap(pool.Object, "spec", "limits")
	used, _, _ := unstructured.NestedMap(pool.Object, "status", "resources")
	most, words := -1.0, ""
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		limit, err := resource.ParseQuantity(fmt.Sprint(limits[name]))
		if err != nil {
			continue // the API server takes no such limit
		}
		is, err := resource.ParseQuantity(fmt.Sprint(cmp.Or(used[name], any("0"))))
		if err != nil {
			continue
		}
		share := 1.0
		if !limit.IsZero() {
			share = is.AsApproximateFloat64() / limit.AsApproximateFloat64()
		}
		if share > most {
			most, words = share, fmt.Sprintf("%.0f%% of %s %s", 100*share, limit.String(), name)
		}
	}
	return words
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
