package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/wake"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// SetupWithManager registers the controller, for so many passes at a time.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, concurrent int) error {
	r.lanes.Among(concurrent)
	r.lanes.Heavy = r.Confine.Heavy
	r.waker = wake.New(mgr.Elected())
	r.watches = &watch.Watches{Refusals: r.Refusals, Wakes: r.wakes(), Pace: &observe.Pace{Now: r.Settings.Now}, Now: r.Settings.Now}
	return r.watches.Control(mgr, r, r.waker.Events, concurrent)
}

// wakes finds the NodeSyncs that an event wakes.
func (r *Reconciler) wakes() watch.Wakes {
	return watch.Wakes{Cached: r.Client, Namespace: r.Settings.Namespace, Launches: r.Launches, Ends: r.Ends, Interests: &r.registry}
}

// Serves says whether NodePools and NodeClaims are watched: they can be read from the cache then.
func (r *Reconciler) Serves() bool { return r.watches.Serves() }

// Wake has the sources of NodeSyncs fetched now, and returns before they are.
func (r *Reconciler) Wake(ctx context.Context, syncs []v1alpha1.NodeSync) error {
	return r.waker.Wake(ctx, syncs, &r.memories, r.Standby, r.Settings.Now())
}

// Look has a pass made over a NodeSync, which reports what has become known beside
// the passes. It never blocks: at the worst the next pass comes at its time.
func (r *Reconciler) Look(name types.NamespacedName) { r.waker.Look(name) }

// fetchFor has a NodeSync fetch what is not newer than a time.
func (r *Reconciler) fetchFor(name types.NamespacedName, at time.Time) {
	r.memories.Push(name, at)
	r.Look(name)
}

// Shared is what plans beside the passes share with them.
func (r *Reconciler) Shared() (*schema.Cache, *observe.Definitions) {
	return &r.schemas, &r.definitions
}

// endLane ends a pass, and wakes the one that waits for that.
func (r *Reconciler) endLane(repository string) {
	if next, waits := r.lanes.Leave(repository); waits {
		r.Look(next)
	}
}
