package teardown

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Unrecord drops the records of removals that Git has taken back: what they had
// overwritten is as it was, and the next removal of the same object starts again.
// What stays recorded is what no commit takes back: the NodeClaims that are ending, and the pods
// that they evict.
// A write that another client overtook is an error like any other: the record is
// dropped by the pass after. It returns what each record had of NodeClaims.
func Unrecord(ctx context.Context, w World, p Pass, back ...v1alpha1.Removal) (map[types.UID]Unrecorded, error) {
	if len(back) == 0 {
		return nil, nil
	}
	d := newDrive(w, p)
	var err error
	if d.records, err = loadRecords(ctx, w.Home, p.Sync); err != nil {
		return nil, err
	}
	found := map[types.UID]Unrecorded{}
	for _, r := range back {
		entry := d.records.entries[r.UID]
		found[r.UID] = Unrecorded{NodeClaims: entry.NodeClaims}
		d.records.forget(r.UID)
		if r.Kind != render.NodePool || p.Pace.All {
			continue
		}
		of, err := d.claimsOf(ctx, r.Name)
		if err != nil {
			return nil, err
		}
		// One that was taken back before, and left Git again, may have left something, too.
		left := d.records.entries[takenBack(r.UID)]
		left.Kind, left.Name = r.Kind, r.Name
		left.Workloads = join(left.Workloads, entry.Workloads)
		stay := map[string]bool{}
		terminating := 0
		for _, c := range of[r.Name] {
			if owner, _ := poolOf(c); owner != r.UID {
				continue
			}
			claim := claimOf(c)
			if claim.leaving() && !slices.Contains(left.Leaving, c.UID) {
				left.Leaving = append(left.Leaving, c.UID)
			}
			switch {
			case claim.Deleting.IsZero():
				stay[claim.ProviderID] = true
			case !entry.has(claim.ProviderID):
				terminating++
			}
		}
		found[r.UID] = Unrecorded{NodeClaims: entry.NodeClaims, Terminated: terminating + entry.without(stay)}
		if err := d.leave(ctx, takenBack(r.UID), left); err != nil {
			return nil, err
		}
	}
	return found, d.records.save(ctx, w.Home, p.Sync)
}

// Unrecorded is what the record of a removal that was reverted had of NodeClaims.
type Unrecorded struct {
	// NodeClaims is how many there were when the removal was recorded.
	NodeClaims int
	// Terminated is how many are terminating or gone of those, and of those that the pool launched before its growth was stopped.
	Terminated int
}

// has reports whether an instance is recorded.
func (r record) has(providerID string) bool {
	_, has := r.Instances[providerID]
	return has
}

// without returns how many instances are recorded that are not among some.
func (r record) without(some map[string]bool) int {
	n := 0
	for id := range r.Instances {
		if !some[id] {
			n++
		}
	}
	return n
}

// takenBack is the key of what a removal that was taken back has left: its object may leave Git again.
func takenBack(uid types.UID) types.UID { return uid + ".reverted" }

// leave records what a removal that was taken back has left. Once none of its NodeClaims ends any
// more these are pods.
func (d *drive) leave(ctx context.Context, key types.UID, left record) error {
	if len(left.Leaving) == 0 {
		pods, err := d.leftOf(ctx, left.Workloads)
		if err != nil {
			return err
		}
		left = record{Kind: left.Kind, Name: left.Name, Left: append(left.Left, pods...)}
	}
	if left.over() {
		d.records.put(key, left)
	} else {
		d.records.forget(key)
	}
	return nil
}

// observeLeaving reads, past the cache, which NodeClaims are ending of removals that this pass does
// not drive: those that were taken back, and those that are about to be. They count against
// removal.maxUnavailable as long as they are there.
func (d *drive) observeLeaving(ctx context.Context) error {
	d.leaving = map[types.UID][]types.UID{}
	pools := d.undrivenPools()
	if len(pools) == 0 || d.Pace.All {
		return nil
	}
	of, err := d.claimsOf(ctx, pools...)
	if err != nil {
		return err
	}
	for _, uid := range slices.Sorted(maps.Keys(d.records.entries)) {
		entry := d.records.entries[uid]
		for _, c := range of[entry.Name] {
			owner, _ := poolOf(c)
			if claimOf(c).leaving() && (slices.Contains(entry.Leaving, c.UID) || d.stands(uid) && owner == uid) {
				d.leaving[uid] = append(d.leaving[uid], c.UID)
			}
		}
		if entry.Leaving == nil || len(d.leaving[uid]) > 0 {
			continue
		}
		entry.Leaving = nil
		if err := d.leave(ctx, uid, entry); err != nil {
			return err
		}
	}
	return nil
}

// undrivenPools are the pools whose NodeClaims may be ending by a removal that this pass does not drive.
func (d *drive) undrivenPools() (pools []string) {
	for uid, entry := range d.records.entries {
		if entry.Kind == render.NodePool && (entry.Leaving != nil || d.stands(uid)) {
			pools = append(pools, entry.Name)
		}
	}
	return pools
}

// stands says that a record is of a removal that is neither over nor driven in this pass.
func (d *drive) stands(uid types.UID) bool {
	return !d.records.entries[uid].over() && !slices.ContainsFunc(d.items, func(it *item) bool { return it.before.UID == uid })
}

// claimsOf are the NodeClaims of some pools past the cache, by pool.
func (d *drive) claimsOf(ctx context.Context, pools ...string) (map[string][]*karpv1.NodeClaim, error) {
	l := &look{reader: d.Live, claims: map[string][]*karpv1.NodeClaim{}}
	for some := range slices.Chunk(pools, namesAtOnce) {
		if err := l.readClaims(ctx, some); err != nil {
			return nil, err
		}
	}
	return l.claims, nil
}

// undriven is what removals that are not driven have to do with the pace of those that are, beyond
// what counts of these by itself.
func (d *drive) undriven(open []*item) []share {
	counted := map[types.UID]bool{}
	for _, it := range open {
		for _, c := range it.seen.NodeClaims {
			counted[c.UID] = !it.unbegun(d.records.entries[it.before.UID])
		}
	}
	var all []share
	for _, uid := range slices.Sorted(maps.Keys(d.leaving)) {
		s := share{removal: d.records.entries[uid].Kind + "/" + d.records.entries[uid].Name}
		for _, claim := range d.leaving[uid] {
			if !counted[claim] {
				s.leaving++
			}
		}
		all = append(all, s)
	}
	return all
}
