package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// wakeUps is how many wake-ups can stand in line before the controller takes
// them: it does so at once.
const wakeUps = 1024

// waker wakes passes from outside of the cluster.
type waker struct {
	// elected is closed once this process leads.
	elected <-chan struct{}
	events  chan event.GenericEvent
}

// Wake has the sources of NodeSyncs fetched now, not at their next interval. It
// returns before they are.
//
// Where this process leads it is noted in memory: a new leader has no memory and
// fetches anyway. Another replica asks for it in the cluster, by the annotation
// with which people ask, so that whoever leads hears of it.
func (r *Reconciler) Wake(ctx context.Context, syncs []v1alpha1.NodeSync) error {
	select {
	case <-r.waker.elected:
	default:
		return r.requestAll(ctx, syncs)
	}
	now := r.Settings.Now()
	for i := range syncs {
		r.memories.push(client.ObjectKeyFromObject(&syncs[i]), now)
	}
	for i := range syncs {
		select {
		case r.waker.events <- event.GenericEvent{Object: &syncs[i]}:
		case <-ctx.Done():
			return fmt.Errorf("wake NodeSync %s/%s: %w", syncs[i].Namespace, syncs[i].Name, ctx.Err())
		}
	}
	return nil
}

// requestAll writes Flux's annotation on NodeSyncs.
func (r *Reconciler) requestAll(ctx context.Context, syncs []v1alpha1.NodeSync) error {
	for i := range syncs {
		name := client.ObjectKeyFromObject(&syncs[i])
		if _, err := Request(ctx, r.Standby, name, r.Settings.Now()); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("request a fetch of NodeSync %s: %w", name, err)
		}
	}
	return nil
}

// Request asks for a pass over a NodeSync in the cluster, by Flux's annotation,
// and returns its value: status.lastHandledReconcileAt is equal when it was
// handled. The error is the API server's.
func Request(ctx context.Context, to client.Writer, name types.NamespacedName, at time.Time) (requested string, err error) {
	requested = at.Format(time.RFC3339Nano)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, meta.ReconcileRequestAnnotation, requested)
	sync := &v1alpha1.NodeSync{}
	sync.Namespace, sync.Name = name.Namespace, name.Name
	return requested, to.Patch(ctx, sync, client.RawPatch(types.MergePatchType, patch))
}
