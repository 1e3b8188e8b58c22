package brake

import (
	"slices"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// reverted says that what the nodes of a NodePool are made by is taken back from what is being rolled
// out there: a class may be taken back for the nodes of another NodePool.
func reverted(pool *plan.Object, changes []plan.Change) bool {
	of := []render.Ref{{Kind: render.NodePool, Name: pool.GetName()}, plan.ClassOf(pool)}
	for i := range changes {
		if c := &changes[i]; len(c.Reverts) > 0 && slices.Contains(of, c.Ref) && slices.Contains(c.Reverts, pool.GetName()) {
			return true
		}
	}
	return false
}
