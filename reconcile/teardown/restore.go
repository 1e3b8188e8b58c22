package teardown

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// Settles is how long Karpenter is given until it is looked again whether it still takes nodes for drifted.
const Settles = 2 * time.Second

// Restore gives pools of Git, which cannot be written yet, what plumbline itself has taken from them. Those whose nodes
// Karpenter has replaced get their disruption budgets back last, once it takes none for drifted any more that only the
// removal had made drift. It is done when each has all; else it returns when to go on.
func Restore(ctx context.Context, w World, sync *v1alpha1.NodeSync, now time.Time, pools []*unstructured.Unstructured, braked map[string]bool) (again time.Time, err error) {
	if len(Restores(pools, nil, braked)) == 0 {
		return again, nil
	}
	d := newDrive(w, Pass{Now: now, Sync: sync})
	if d.records, err = loadRecords(ctx, w.Home, sync); err != nil {
		return again, err
	}
	whole := pools[:0:0]
	for _, pool := range pools {
		drifts, err := d.unreplace(ctx, pool)
		switch {
		case err != nil:
			return again, err
		case drifts:
			d.wakeAt(now.Add(Settles))
		default:
			whole = append(whole, pool)
		}
	}
	for _, restore := range Restores(whole, d.records.growth(sync), braked) {
		restored, err := w.release(ctx, restore)
		if err != nil {
			return again, err
		}
		if !restored {
			d.wakeAt(now.Add(finding.Soon))
		}
	}
	return d.result.Again, nil
}

// unreplace has the nodes of a pool match it again, and says whether Karpenter may still take some for drifted.
func (d *drive) unreplace(ctx context.Context, pool *unstructured.Unstructured) (drifts bool, err error) {
	i := slices.IndexFunc(d.Sync.Status.Removals, func(r v1alpha1.Removal) bool { return r.UID == pool.GetUID() })
	if i < 0 || restrained(pool) < 0 {
		return false, nil
	}
	it := &item{before: d.Sync.Status.Removals[i]}
	if it.see(pool, d.Now); !it.paces || !it.seen.alive() {
		return false, nil
	}
	of, err := d.claimsOf(ctx, pool.GetName())
	if err != nil {
		return false, err
	}
	it.seeClaims(of[pool.GetName()])
	if it.seen.Replacing == nil {
		return it.seen.drifting(it.before), nil
	}
	if err = d.restrainSeen(ctx, it, RestoreGrowth{Paced: true}); apierrors.IsConflict(err) || absent(err) {
		return true, nil
	}
	return true, err
}
