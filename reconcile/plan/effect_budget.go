package plan

import (
	"slices"
	"time"

	"k8s.io/utils/clock"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// freed is how many nodes wider disruption budgets let Karpenter replace at once: nodes
// that have drifted already and wait for their turn, but for those in touched, which are
// counted.
func freed(before, after *karpv1.NodePool, claims, touched []*NodeClaim, now time.Time) int {
	nodes := len(claims)
	allowed := allowedDisruptions(after, nodes, now)
	if allowed <= allowedDisruptions(before, nodes, now) {
		return 0
	}
	waiting := 0
	for _, c := range claims {
		switch {
		case c.Deleting:
			allowed--
		case c.Drifted && !slices.Contains(touched, c):
			waiting++
		}
	}
	return max(0, min(waiting, allowed))
}

// opened says that a change takes away the last budget that always keeps some nodes from
// being replaced.
func opened(before, after *karpv1.NodePool, nodes int) bool {
	return nodes > 1 && allowedDisruptions(always(after), nodes, time.Time{}) >= nodes && allowedDisruptions(always(before), nodes, time.Time{}) < nodes
}

// always is a pool with those of its budgets that have no schedule.
func always(pool *karpv1.NodePool) *karpv1.NodePool {
	unscheduled := pool.DeepCopy()
	unscheduled.Spec.Disruption.Budgets = slices.DeleteFunc(unscheduled.Spec.Disruption.Budgets, func(b karpv1.Budget) bool { return b.Schedule != nil })
	return unscheduled
}

// allowedDisruptions is how many of so many nodes a pool's budgets let Karpenter replace
// for drift at a time. It allows none where one of its budgets cannot be read.
func allowedDisruptions(pool *karpv1.NodePool, nodes int, now time.Time) int {
	allowed, err := pool.GetAllowedDisruptionsByReason(at{now: now}, nodes, karpv1.DisruptionReasonDrifted)
	if err != nil {
		return 0
	}
	return min(allowed, nodes)
}

// at is a clock that stands still.
type at struct {
	clock.RealClock
	now time.Time
}

// Now is the time at which it stands.
func (c at) Now() time.Time { return c.now }
