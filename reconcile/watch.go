package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fluxcd/pkg/runtime/predicates"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
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
	r.lanes.among(concurrent)
	r.waker = waker{elected: mgr.Elected(), events: make(chan event.GenericEvent, wakeUps)}
	built, err := ctrl.NewControllerManagedBy(mgr).
		Named("nodesync").
		For(&v1alpha1.NodeSync{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{},
			predicate.AnnotationChangedPredicate{},
			predicates.ReconcileRequestedPredicate{},
		))).
		WatchesRawSource(source.Channel(r.waker.events, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrent,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrlreconcile.Request](leastBackoff, longestBackoff),
		}).
		Build(r)
	if err != nil {
		return fmt.Errorf("build the controller: %w", err)
	}
	r.watches = &watches{controller: built, cache: mgr.GetCache(), kinds: mgr.GetRESTMapper(), reconciler: r, pace: &observe.Pace{Now: r.Settings.Now}}
	return nil
}

// all wakes every NodeSync.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []ctrlreconcile.Request {
	return r.where(ctx, func(*v1alpha1.NodeSync) bool { return true })
}

// allOnCRD wakes every NodeSync when a CRD of Karpenter's changes.
func (r *Reconciler) allOnCRD(ctx context.Context, obj client.Object) []ctrlreconcile.Request {
	if slices.Contains(allowance.FromCharts().CRDs, obj.GetName()) {
		return r.all(ctx, obj)
	}
	return nil
}

// concerned wakes the NodeSync that owns a definition, those whose Git has an
// entry of its name, and those that wait for another to take one over.
func (r *Reconciler) concerned(ctx context.Context, obj client.Object) []ctrlreconcile.Request {
	ref := render.Ref{Kind: obj.GetObjectKind().GroupVersionKind().Kind, Name: obj.GetName()}
	return r.where(ctx, func(sync *v1alpha1.NodeSync) bool {
		name := client.ObjectKeyFromObject(sync)
		return plan.OwnerOf(sync.Namespace, sync.Name).Owns(obj) || r.memories.registry.Wants(name, ref) || r.memories.registry.Awaits(name)
	})
}

// claimed wakes the NodeSyncs whose open removals a NodeClaim belongs to, those of
// whose pool it brings news, those that watch for node drift, and those that hold
// something for the number of nodes.
func (r *Reconciler) claimed(ctx context.Context, obj client.Object) []ctrlreconcile.Request {
	claim, ok := obj.(*karpv1.NodeClaim)
	if !ok {
		return nil
	}
	n, news := observe.NodeClaim(claim), r.Launches.See(claim)
	pool := render.Ref{Kind: render.NodePool, Name: n.Pool}
	return r.where(ctx, func(sync *v1alpha1.NodeSync) bool {
		name, told := client.ObjectKeyFromObject(sync), news || watchesDrift(sync)
		return removes(sync, n) || told && r.memories.registry.Wants(name, pool) || r.memories.registry.Holds(name)
	})
}

// removes says whether an open removal of a NodeSync has to do with a NodeClaim.
func removes(sync *v1alpha1.NodeSync, n plan.NodeClaim) bool {
	return slices.ContainsFunc(sync.Status.Removals, func(r v1alpha1.Removal) bool {
		return r.Kind == render.NodePool && r.Name == n.Pool || r.Kind == render.EC2NodeClass && r.Name == n.Class
	})
}

// where wakes the NodeSyncs for which wake says so. They are the cache's own and
// read only.
func (r *Reconciler) where(ctx context.Context, wake func(*v1alpha1.NodeSync) bool) []ctrlreconcile.Request {
	list := &v1alpha1.NodeSyncList{}
	if err := r.Client.List(ctx, list, client.InNamespace(r.Settings.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		// The cache that this reads is the one that the event came from.
		ctrl.LoggerFrom(ctx).Error(err, "list NodeSyncs in the cache")
		return nil
	}
	var requests []ctrlreconcile.Request
	for i := range list.Items {
		if wake(&list.Items[i]) {
			requests = append(requests, ctrlreconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
