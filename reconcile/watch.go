package reconcile

import (
	"fmt"
	"time"

	"github.com/fluxcd/pkg/runtime/predicates"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/wake"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
)

// The least and the longest time until a pass whose end could not be written is
// run again. It is short: the API server was away, and nothing else wakes us when
// it is back.
const (
	leastBackoff   = 50 * time.Millisecond
	longestBackoff = 10 * time.Second
)

// SetupWithManager registers the controller and the watch of NodeSyncs. The
// others begin with the first pass, so that a NodeSync can tell where one of them
// is refused.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, concurrent int) error {
	r.lanes.Among(concurrent)
	r.lanes.Heavy = r.Confine.Heavy
	r.waker = wake.New(mgr.Elected())
	built, err := ctrl.NewControllerManagedBy(mgr).
		Named("nodesync").
		For(&v1alpha1.NodeSync{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{},
			predicate.AnnotationChangedPredicate{},
			predicates.ReconcileRequestedPredicate{},
		))).
		WatchesRawSource(source.Channel(r.waker.Events, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrent,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrlreconcile.Request](leastBackoff, longestBackoff),
		}).
		Build(r)
	if err != nil {
		return fmt.Errorf("build the controller: %w", err)
	}
	r.watches = &watch.Watches{
		Controller: built, Cache: mgr.GetCache(), Kinds: mgr.GetRESTMapper(), Scheme: mgr.GetScheme(),
		Refusals: r.Refusals, Wakes: r.wakes(), Pace: &observe.Pace{Now: r.Settings.Now}, Now: r.Settings.Now,
	}
	return nil
}

// wakes finds the NodeSyncs that an event wakes.
func (r *Reconciler) wakes() watch.Wakes {
	return watch.Wakes{Cached: r.Client, Namespace: r.Settings.Namespace, Launches: r.Launches, Interests: &r.memories.registry}
}
