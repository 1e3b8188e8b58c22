package reconcile

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Look has a pass made over a NodeSync, which tells what has become known beside
// the passes. It never blocks: at the worst the next pass comes at its time.
func (r *Reconciler) Look(name types.NamespacedName) {
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	select {
	case r.waker.events <- event.GenericEvent{Object: sync}:
	default:
	}
}
