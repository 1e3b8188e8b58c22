package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Wake has the sources of NodeSyncs fetched now, not at their next interval. It
// returns before they are.
func (r *Reconciler) Wake(ctx context.Context, syncs []v1alpha1.NodeSync) error {
	return r.waker.Wake(ctx, syncs, &r.memories, r.Standby, r.Settings.Now())
}

// Look has a pass made over a NodeSync, which reports what has become known beside
// the passes. It never blocks: at the worst the next pass comes at its time.
func (r *Reconciler) Look(name types.NamespacedName) { r.waker.Look(name) }

// endLane ends a pass, and wakes the one that waits for that.
func (r *Reconciler) endLane(repository string) {
	if next, waits := r.lanes.Leave(repository); waits {
		r.Look(next)
	}
}
