package plan

import (
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// changesBudgets reports whether the disruption budgets differ.
func (e poolEdit) changesBudgets() bool {
	return !slices.EqualFunc(e.before.Spec.Disruption.Budgets, e.after.Spec.Disruption.Budgets, sameBudget)
}

// freed is how many nodes wider disruption budgets let Karpenter replace at once, now or later: nodes
// that have drifted already and wait for their turn.
func freed(before, after *karpv1.NodePool, claims, drifted []*NodeClaim, now time.Time) int {
	if slices.EqualFunc(before.Spec.Disruption.Budgets, after.Spec.Disruption.Budgets, sameBudget) {
		return 0
	}
	allowed := widened(before, after, len(claims), now, karpv1.DisruptionReasonDrifted)
	for _, c := range claims {
		if c.Deleting {
			allowed--
		}
	}
	return max(0, min(len(drifted), allowed))
}

// widened is how many of so many nodes the budgets of a pool allow at once for a reason after a change, where that is
// more than before: now, or at the time at which they allow the most. A budget that only opens tonight
// is no narrower than one that is open; one that opened likewise before frees nothing.
func widened(before, after *karpv1.NodePool, nodes int, now time.Time, reason karpv1.DisruptionReason) int {
	is, err := readBudgets(after, nodes, reason)
	if err != nil {
		return 0
	}
	was, err := readBudgets(before, nodes, reason)
	if err != nil {
		was = budgets{nodes: nodes, all: []budget{{}}}
	}
	allowed := 0
	if n := is.at(now); n > was.at(now) {
		allowed = n
	}
	if now.IsZero() {
		return allowed
	}
	least, _ := was.widest(now, horizon)
	most, whole := is.widest(now, horizon)
	if !whole {
		most = is.always()
	}
	if most > least {
		allowed = max(allowed, most)
	}
	return allowed
}

// opened says that a change takes away the last budget that always keeps some nodes from
// being replaced.
func opened(before, after *karpv1.NodePool, nodes int) bool {
	return nodes > 1 && alwaysAllowed(after, nodes) >= nodes && alwaysAllowed(before, nodes) < nodes
}

// alwaysAllowed is how many nodes the budgets of a pool without a schedule allow to be replaced at a
// time; none where one cannot be read.
func alwaysAllowed(pool *karpv1.NodePool, nodes int) int {
	b, err := readBudgets(pool, nodes, karpv1.DisruptionReasonDrifted)
	if err != nil {
		return 0
	}
	return b.always()
}
