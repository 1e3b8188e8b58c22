package main

import (
	"context"
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// drain has all nodes of the NodeSync ended, by spec.drain, unless an earlier run has: its definitions stay.
func (t *teardown) drain(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) error {
	if sync.Spec.Drain {
		t.show.say(nodeSyncWord(sync.Name) + " has drain: true already")
		return t.bringBack(ctx, sync, leaves)
	}
	if err := t.confirm(ctx, "all nodes of nodesync/"+sync.Name+" end, and its definitions stay", sync.Name); err != nil {
		return err
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"drain":true}}`))
	if err := t.c.Patch(ctx, sync.DeepCopy(), patch, client.DryRunAll); err != nil {
		return explain(err, "write NodeSync "+sync.Name+" (nothing was changed)")
	}
	if err := t.bringBack(ctx, sync, leaves); err != nil {
		return err
	}
	if err := t.c.Patch(ctx, sync.DeepCopy(), patch); err != nil {
		return explain(err, "write NodeSync "+sync.Name)
	}
	t.show.say(nodeSyncWord(sync.Name) + ": drain is true now")
	return nil
}

// drainable says why the nodes cannot be taken away without the definitions; nil where they can.
func (t *teardown) drainable(sync *v1alpha1.NodeSync) error {
	switch {
	case !t.downTo.keeps() || sync == nil:
		return nil
	case sync.DeletionTimestamp != nil:
		return fmt.Errorf("nodesync/%s is being deleted: its definitions go as well; leave --down-to %s out to go on", sync.Name, toNodes)
	case sync.Spec.Suspend:
		return fmt.Errorf("nodesync/%[1]s is suspended, and nothing is drained then: `plumbline resume %[1]s -n %[2]s` first; nothing was changed", sync.Name, sync.Namespace)
	}
	return nil
}

// drained says whether the daemon has found that none of the nodes is left.
func drained(sync *v1alpha1.NodeSync) bool {
	return sync.Spec.Drain && sync.Status.ObservedGeneration == sync.Generation &&
		conditions.IsReady(sync) && conditions.GetReason(sync, meta.ReadyCondition) == v1alpha1.ReasonDrained
}

// undone says that another client has changed what a teardown has begun; nil where none has.
func (t *teardown) undone(seen *v1alpha1.NodeSync) error {
	switch keeps := t.downTo.keeps(); {
	case keeps && (!seen.Spec.Drain || seen.DeletionTimestamp != nil):
		return fmt.Errorf("another client has set drain: false on nodesync/%s, or has deleted it: it goes by that now", seen.Name)
	case keeps && seen.Spec.Suspend:
		return fmt.Errorf("another client has suspended nodesync/%[1]s: what is left of its nodes stays until `plumbline resume %[1]s -n %[2]s`, by which nodes start again", seen.Name, seen.Namespace)
	case !keeps && seen.Spec.OnDelete != v1alpha1.OnDeleteDrain:
		return fmt.Errorf("another client has set onDelete: %s on nodesync/%s: what is left of it stays", seen.Spec.OnDelete, seen.Name)
	}
	return nil
}

// concluded says what has become of the NodeSync.
func (t *teardown) concluded(sync *v1alpha1.NodeSync) string {
	if !t.downTo.keeps() {
		return nodeSyncWord(sync.Name) + " is gone"
	}
	return fmt.Sprintf("%s is drained: its NodePools make no node until `plumbline resume %s -n %s`", nodeSyncWord(sync.Name), sync.Name, sync.Namespace)
}
