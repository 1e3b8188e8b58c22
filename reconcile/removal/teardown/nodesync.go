package teardown

import (
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Drainable returns why a NodeSync's nodes cannot be deleted while its definitions stay; nil if they can.
func (l Level) Drainable(sync *v1alpha1.NodeSync) error {
	switch {
	case !l.Keeps():
		return nil
	case sync.DeletionTimestamp != nil:
		return fmt.Errorf("nodesync/%s is being deleted with its definitions; omit --down-to %s to continue", sync.Name, ToNodes)
	case sync.Spec.Suspend:
		return fmt.Errorf("nodesync/%[1]s is suspended, so it cannot be drained: run `plumbline resume %[1]s -n %[2]s` first; nothing was changed", sync.Name, sync.Namespace)
	}
	return nil
}

// Begun reports whether an earlier run has started the teardown to this level, or to one that includes it.
func (l Level) Begun(sync *v1alpha1.NodeSync) bool {
	return sync.DrainsNodes() && (sync.DeletionTimestamp != nil || l.Keeps())
}

// Complete reports whether the NodeSync, which still exists, has nothing left to do for this level: the daemon has
// found none of its nodes. A level that deletes the NodeSync is complete when the NodeSync is gone.
func (l Level) Complete(sync *v1alpha1.NodeSync) bool {
	return l.Keeps() && sync.Spec.Drain && sync.Status.ObservedGeneration == sync.Generation &&
		conditions.IsReady(sync) && conditions.GetReason(sync, meta.ReadyCondition) == v1alpha1.ReasonDrained
}

// Undone returns an error if another client has reverted what the teardown of a NodeSync has started. began is the
// NodeSync at that time.
func (l Level) Undone(began, sync *v1alpha1.NodeSync) error {
	switch keeps := l.Keeps(); {
	case sync.UID != began.UID:
		return fmt.Errorf("another client recreated nodesync/%s, which applies the nodes again: remove it where that client applies it from, then run the command again", sync.Name)
	case keeps && (!sync.Spec.Drain || sync.DeletionTimestamp != nil):
		return fmt.Errorf("another client set drain: false on nodesync/%s or deleted it, so this command stopped", sync.Name)
	case keeps && sync.Spec.Suspend:
		return fmt.Errorf("another client suspended nodesync/%[1]s: its remaining nodes stay until `plumbline resume %[1]s -n %[2]s`, after which Karpenter may launch nodes again", sync.Name, sync.Namespace)
	case !keeps && sync.Spec.OnDelete != v1alpha1.OnDeleteDrain:
		return fmt.Errorf("another client set onDelete: %s on nodesync/%s: its remaining nodes stay", sync.Spec.OnDelete, sync.Name)
	}
	return nil
}

// Conclusion describes the NodeSync once the teardown to this level is complete.
func (l Level) Conclusion(sync *v1alpha1.NodeSync) string {
	if !l.Keeps() {
		return "nodesync/" + sync.Name + " is gone"
	}
	return fmt.Sprintf("nodesync/%s is drained: its NodePools launch no nodes until you run `plumbline resume %s -n %s`",
		sync.Name, sync.Name, sync.Namespace)
}
