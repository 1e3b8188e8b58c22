package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// LeavingElsewhere are the NodePools that leave by other NodeSyncs of the cluster: a place that two of them count on is
// one place. Of removals that have not begun, those of the NodeSync that recorded its first one before the others go
// first, so that of two at once one waits, and not both.
func LeavingElsewhere(all []v1alpha1.NodeSync, sync *v1alpha1.NodeSync) []render.Ref {
	var found []render.Ref
	for i := range all {
		other := &all[i]
		if other.UID == sync.UID {
			continue
		}
		before := goesBefore(other, sync)
		for _, r := range other.Status.Removals {
			if r.Kind == render.NodePool && (r.Begun() || before && r.Phase == v1alpha1.RemovalPacing) {
				found = append(found, refOf(r))
			}
		}
	}
	slices.SortFunc(found, func(a, b render.Ref) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Compact(found)
}

// goesBefore says whether a NodeSync has recorded a removal that has not begun before another has.
func goesBefore(a, b *v1alpha1.NodeSync) bool {
	first := func(sync *v1alpha1.NodeSync) (at time.Time, any bool) {
		for _, r := range sync.Status.Removals {
			if r.Kind == render.NodePool && !r.Begun() && r.Phase != v1alpha1.RemovalGone && (!any || r.RecordedAt.Time.Before(at)) {
				at, any = r.RecordedAt.Time, true
			}
		}
		return at, any
	}
	atA, anyA := first(a)
	atB, anyB := first(b)
	switch {
	case !anyA || !anyB:
		return anyA
	case !atA.Equal(atB):
		return atA.Before(atB)
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}
