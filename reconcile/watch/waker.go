package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// queueLength is how many requests can be queued before the controller takes them, which it does immediately.
const queueLength = 1024

// Waker enqueues reconciles for events from outside of the cluster. The zero value is never the leader, and enqueues
// nothing in this process.
type Waker struct {
	// Elected is closed once this process is the leader.
	Elected <-chan struct{}
	// Events are received by the controller.
	Events chan event.GenericEvent
}

// NewWaker returns the Waker of a process that is the leader once elected is closed.
func NewWaker(elected <-chan struct{}) Waker {
	return Waker{Elected: elected, Events: make(chan event.GenericEvent, queueLength)}
}

// Enqueue enqueues a reconcile of a NodeSync, to report what has become known between reconciles. It never blocks: at
// worst, the next reconcile comes at its interval.
func (w Waker) Enqueue(name types.NamespacedName) {
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	select {
	case w.Events <- event.GenericEvent{Object: sync}:
	default:
	}
}

// Pushes records pushes for the reconciles of this process.
type Pushes interface {
	// Push records that a host has something new for a NodeSync.
	Push(name types.NamespacedName, at time.Time)
}

// Wake requests a fetch of the sources of NodeSyncs now rather than at their next interval. It returns before they are
// fetched.
//
// If this process is the leader, it records this in memory: a new leader has no memory and fetches anyway. Another
// replica requests it in the cluster through standby, with the same annotation as users, so that the leader sees it.
func (w Waker) Wake(ctx context.Context, syncs []v1alpha1.NodeSync, pushes Pushes, standby client.Writer, now time.Time) error {
	select {
	case <-w.Elected:
	default:
		return requestAll(ctx, syncs, standby, now)
	}
	for i := range syncs {
		pushes.Push(client.ObjectKeyFromObject(&syncs[i]), now)
	}
	for i := range syncs {
		select {
		case w.Events <- event.GenericEvent{Object: &syncs[i]}:
		case <-ctx.Done():
			return fmt.Errorf("wake NodeSync %s/%s: %w", syncs[i].Namespace, syncs[i].Name, ctx.Err())
		}
	}
	return nil
}

// requestAll writes Flux's annotation on NodeSyncs.
func requestAll(ctx context.Context, syncs []v1alpha1.NodeSync, standby client.Writer, now time.Time) error {
	for i := range syncs {
		name := client.ObjectKeyFromObject(&syncs[i])
		if _, err := Request(ctx, standby, name, now); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("request a fetch of NodeSync %s: %w", name, err)
		}
	}
	return nil
}

// Request requests a reconcile of a NodeSync in the cluster, with Flux's annotation, and returns its value: once it was
// handled, status.lastHandledReconcileAt is equal. The error is the API server's.
func Request(ctx context.Context, to client.Writer, name types.NamespacedName, at time.Time) (requested string, err error) {
	requested = at.Format(time.RFC3339Nano)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, meta.ReconcileRequestAnnotation, requested)
	sync := &v1alpha1.NodeSync{}
	sync.Namespace, sync.Name = name.Namespace, name.Name
	return requested, to.Patch(ctx, sync, client.RawPatch(types.MergePatchType, patch))
}
