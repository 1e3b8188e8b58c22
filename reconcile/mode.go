package reconcile

import (
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// mode is what a reconcile of a NodeSync does. It is decided once, before anything is read.
type mode int

const (
	// normal: all five phases.
	normal mode = iota
	// filling: the watch caches are not filled yet. Git is fetched and rendered into the memory, and nothing else.
	filling
	// answering: the daemon does not reconcile this NodeSync, and only reports to others what it has in Git.
	answering
	// otherNamespace: the NodeSync is in a namespace that is not served, and its Secrets must not be read.
	otherNamespace
	// unwatched: watches could not start.
	unwatched
	// deleting: the NodeSync is being deleted, even if it is suspended.
	deleting
	// adopting: the NodeSync has no finalizer yet. It is added before anything that a deletion would have to undo.
	adopting
	// suspended: spec.suspend.
	suspended
	// draining: spec.drain. The nodes are terminated, and the NodeSync stays.
	draining
)

// modeOf returns what a reconcile does. filled reports whether the watch caches are filled, and listenError is why
// watches could not start.
func modeOf(sync *v1alpha1.NodeSync, daemon Settings, filled bool, listenError error) mode {
	deleted := !sync.DeletionTimestamp.IsZero()
	switch {
	case !filled && listenError == nil:
		return filling
	case !daemon.Reconciles(sync):
		return answering
	case sync.Namespace != daemon.Namespace:
		return otherNamespace
	case listenError != nil:
		return unwatched
	case deleted && !daemon.Installing():
		return deleting
	case !controllerutil.ContainsFinalizer(sync, v1alpha1.Finalizer):
		return adopting
	case sync.Spec.Suspend && !daemon.Installing():
		return suspended
	case sync.KeepsDefinitions() && !daemon.Installing():
		return draining
	}
	return normal
}
