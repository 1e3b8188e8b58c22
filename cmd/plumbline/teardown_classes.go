package main

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/render"
)

// seeClasses refuses to begin where a NodePool that stays names an EC2NodeClass that is to go: its deletion would wait for
// that without an end, once the NodeSync's own nodes are gone.
func (t *teardown) seeClasses(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) error {
	if sync.DeletionTimestamp != nil {
		return nil // it has begun
	}
	pools, _ := render.KindOf(render.NodePool)
	all, err := definitionsOf(ctx, t.c, pools)
	if err != nil {
		return err
	}
	var class string
	var named []string
	for i := range all {
		name, _, err := unstructured.NestedString(all[i].Object, pools.RefPath...)
		if err != nil || leaves.ends(render.NodePool, all[i].GetName()) || !leaves.ends(pools.RefersTo, name) {
			continue
		}
		class = name
		named = append(named, stayingWords(render.NodePool, &all[i]))
	}
	if len(named) == 0 {
		return nil
	}
	return fmt.Errorf("%s/%s goes with nodesync/%s, and %s stays and names it: tear that down first, or use --down-to %s. Nothing was changed",
		pools.RefersTo, class, sync.Name, finding.First(named), toNodes)
}

// ends says whether an object is one of the NodeSync's that go.
func (l *teardownPlan) ends(kind, name string) bool {
	return slices.ContainsFunc(l.Objects, func(o leavingObject) bool { return o.Kind == kind && o.Name == name })
}
