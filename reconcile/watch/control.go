package watch

import (
	"fmt"
	"time"

	"github.com/fluxcd/pkg/runtime/predicates"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// The minimum and maximum delay before a reconcile whose result could not be written is retried. They are short,
// because the API server was unreachable, and no event reports that it is back.
const (
	minBackoff     = 50 * time.Millisecond
	longestBackoff = 10 * time.Second
)

// Control registers the controller that runs reconciles, at most concurrent at a time, when a NodeSync has changed or
// an event requires it. The nodes may be in another cluster. The watches of Watches start with the first reconcile, so
// that a NodeSync can report one that is rejected.
func (w *Watches) Control(
	mgr ctrl.Manager, nodes cluster.Cluster, passes reconcile.Reconciler, events chan event.GenericEvent, concurrent int,
) error {
	built, err := ctrl.NewControllerManagedBy(mgr).
		Named("nodesync").
		For(&v1alpha1.NodeSync{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{},
			predicate.AnnotationChangedPredicate{},
			predicates.ReconcileRequestedPredicate{},
		))).
		WatchesRawSource(source.Channel(events, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrent,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, longestBackoff),
		}).
		Build(passes)
	if err != nil {
		return fmt.Errorf("build the controller: %w", err)
	}
	w.Controller, w.Scheme, w.Home, w.Nodes = built, mgr.GetScheme(), sideOf(mgr), sideOf(nodes)
	return nil
}

// sideOf returns the Side of a cluster.
func sideOf(c cluster.Cluster) Side { return Side{Cache: c.GetCache(), Kinds: c.GetRESTMapper()} }
