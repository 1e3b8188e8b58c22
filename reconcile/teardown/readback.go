package teardown

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// readBack reads the NodeSync and the record past the cache, and returns the
// removals that stand in both. A removal that was reverted stands in the status
// no more, whatever the cache says. Where the NodeSync's spec is another one by
// now, none does: this pass goes by a policy that is over.
func (d *drive) readBack(ctx context.Context) (map[types.UID]bool, error) {
	sync := &v1alpha1.NodeSync{}
	if err := d.Home.Get(ctx, client.ObjectKeyFromObject(d.Sync), sync); err != nil {
		return nil, fmt.Errorf("read back the removals in the status of NodeSync %s/%s: %w", d.Sync.Namespace, d.Sync.Name, err)
	}
	records, err := loadRecords(ctx, d.Home, d.Sync)
	if err != nil {
		return nil, err
	}
	d.records = records
	current := sync.UID == d.Sync.UID && sync.Generation == d.Sync.Generation &&
		sync.DeletionTimestamp.IsZero() == d.Sync.DeletionTimestamp.IsZero()
	recorded := map[types.UID]bool{}
	for _, it := range d.open() {
		_, noted := records.entries[it.before.UID]
		recorded[it.before.UID] = current && noted && inStatus(sync, it.before) && d.counted(sync, it.before)
	}
	if !current {
		d.wakeAt(d.Now.Add(soon))
	}
	return recorded, nil
}

// counted reports whether a removal that counts for later ones is recorded among the recent ones.
func (d *drive) counted(sync *v1alpha1.NodeSync, r v1alpha1.Removal) bool {
	_, written := plan.LetGo(sync.Status.RecentRemovals, &r)
	return written || !d.Counts[r.UID]
}

func inStatus(sync *v1alpha1.NodeSync, r v1alpha1.Removal) bool {
	for _, written := range sync.Status.Removals {
		if written.UID == r.UID && written.Kind == r.Kind && written.Name == r.Name {
			return true
		}
	}
	return false
}

// saveRecords writes what the removals of this pass have to note, in one write.
// Another writer's change is not overwritten: the next pass reads it first.
func (d *drive) saveRecords(ctx context.Context) error {
	noted := false
	for _, it := range d.open() {
		for _, a := range it.actions {
			switch a := a.(type) {
			case Note:
				noted = d.records.note(it, a) || noted
				it.after.Growth = d.records.entries[it.before.UID].Growth.status()
			case Forget:
				if err := d.forget(ctx, it); err != nil {
					return err
				}
			}
		}
	}
	if err := d.records.save(ctx, d.Home, d.Sync); err != nil {
		return err
	}
	if noted {
		d.wakeAt(d.Now)
	}
	return nil
}
