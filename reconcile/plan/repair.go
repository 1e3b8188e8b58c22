package plan

import (
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

const (
	// NodeRepair is the feature gate with which Karpenter replaces nodes that have been unhealthy for too long.
	NodeRepair = "NodeRepair"
	// RepairsWithinBudgets is the first version that does so only within the disruption budgets for the reason Unhealthy,
	// unless settings.legacyNodeRepair is set (sigs.k8s.io/karpenter pkg/controllers/disruption/repair.go, 1.15.0).
	RepairsWithinBudgets = "1.15.0"
)

// RepairStopped returns the NodePools that some Changes create, or change, so that their disruption budgets never allow
// Karpenter to repair a node.
func RepairStopped(changes []Change, now time.Time) []string {
	var found []string
	for i := range changes {
		c := &changes[i]
		if c.Ref.Kind != render.NodePool || c.Err != nil || c.Wanted() == nil {
			continue
		}
		if after, err := typed[karpv1.NodePool](c.Wanted()); err != nil || !stopsRepair(after, now) {
			continue
		}
		if c.Live != nil {
			if before, err := typed[karpv1.NodePool](c.Live); err == nil && stopsRepair(before, now) {
				continue
			}
		}
		found = append(found, c.Ref.String())
	}
	return found
}

// stopsRepair reports whether the budgets of a pool allow no repair at any time within a year.
func stopsRepair(pool *karpv1.NodePool, now time.Time) bool {
	b, err := readBudgets(pool, 1, karpv1.DisruptionReasonUnhealthy)
	return err == nil && b.maxInYear(now) == 0
}
