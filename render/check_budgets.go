package render

import (
	"fmt"
	"reflect"
)

// maxBudgets is how many disruption budgets a NodePool may have in Git. Karpenter's CRD allows one more,
// which is the one that stops a rollout.
const maxBudgets = 49

// checkBudgets refuses so many disruption budgets that no rollout of the NodePool could be stopped, nor
// wait in a freeze. Those for drift only do not count: they make room for that one.
func checkBudgets(object Object) []problem {
	n := 0
	for _, budget := range list(object.Desired, "spec", "disruption", "budgets") {
		if !reflect.DeepEqual(budget["reasons"], []any{"Drifted"}) {
			n++
		}
	}
	if n <= maxBudgets {
		return nil
	}
	return []problem{{"spec.disruption.budgets", fmt.Sprintf(
		"%s: it has %d disruption budgets, and may have %d: one of the 50 that Karpenter allows is kept for the budget that stops a rollout, or keeps nodes in a freeze", object.Ref, n, maxBudgets)}}
}
