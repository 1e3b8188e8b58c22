package teardown

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// CallBack has Karpenter begin to replace no more nodes of the pools that leave: nobody looks after them for a while. It
// reads past the cache, and leaves what another one writes meanwhile as it is. What Karpenter has begun goes on.
func CallBack(ctx context.Context, w World, sync *v1alpha1.NodeSync, now time.Time) error {
	d := newDrive(w, Pass{Now: now, Sync: sync})
	var failures []error
	for _, r := range sync.Status.Removals {
		if r.Kind != render.NodePool || rank(r.Phase) > rank(v1alpha1.RemovalDraining) {
			continue
		}
		if err := d.callBack(ctx, r); err != nil && !apierrors.IsConflict(err) && !absent(err) {
			failures = append(failures, fmt.Errorf("call back what Karpenter may replace of NodePool/%s: %w", r.Name, err))
		}
	}
	return errors.Join(failures...)
}

func (d *drive) callBack(ctx context.Context, r v1alpha1.Removal) (err error) {
	it := &item{before: r}
	pool := it.object()
	if err := d.Live.Get(ctx, types.NamespacedName{Name: r.Name}, pool); err != nil {
		return err
	}
	if it.see(pool, d.Now); pool.GetUID() != r.UID || !it.seen.alive() || !it.seen.lends() {
		return nil
	}
	if d.records == nil {
		if d.records, err = loadRecords(ctx, d.Home, d.Sync); err != nil {
			return err
		}
	}
	return d.restrainSeen(ctx, it, Replace{})
}
