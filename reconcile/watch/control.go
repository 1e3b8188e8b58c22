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

// The least and the longest time until a reconcile whose end could not be written is
// run again. It is short: the API server was away, and nothing else wakes us when
// it is back.
const (
	leastBackoff   = 50 * time.Millisecond
	longestBackoff = 10 * time.Second
)

// Control registers the controller that has passes made: so many at a time, when a NodeSync
// has changed or an event says so. The nodes may be in a cluster of their own. The watches of Watches begin with the first reconcile, so that
// a NodeSync can tell where one of them is refused.
func (w *Watches) Control(mgr ctrl.Manager, nodes cluster.Cluster, passes reconcile.Reconciler, events chan event.GenericEvent, concurrent int) error {
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
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](leastBackoff, longestBackoff),
		}).
		Build(passes)
	if err != nil {
		return fmt.Errorf("build the controller: %w", err)
	}
	w.Controller, w.Scheme, w.Home, w.Nodes = built, mgr.GetScheme(), sideOf(mgr), sideOf(nodes)
	return nil
}

// sideOf is what is watched of a cluster.
func sideOf(c cluster.Cluster) Side { return Side{Cache: c.GetCache(), Kinds: c.GetRESTMapper()} }
