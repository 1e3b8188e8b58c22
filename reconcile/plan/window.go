package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// horizon is how far ahead windows of disruption budgets are looked for, hits how many times of one
// schedule are looked at, and of one pool at how many times, and looked how many times of all schedules
// of a pool: Git may have 49 budgets that turn each minute.
const (
	horizon = 31 * 24 * time.Hour
	// year is how far ahead is looked for the most that budgets allow: a schedule comes again within it.
	year   = 366 * 24 * time.Hour
	hits   = 2000
	looked = 5 * hits
)

// Allowed is how many of a NodePool's nodes Karpenter may replace for drift.
type Allowed struct {
	// Now is how many that is at the time, and Next from At on, where Now is 0. At is zero where
	// that is not within 31 days.
	Now, Next int
	At        time.Time
	// Partly says that where At is zero not all of the 31 days was looked at.
	Partly bool
	// Unreadable says that a budget's schedule cannot be read: Karpenter disrupts nothing then.
	Unreadable bool
}

// AllowedDisruptions reads off the disruption budgets of a NodePool how many of so many nodes
// Karpenter may replace for drift at a time, and when the next window opens.
func AllowedDisruptions(object *Object, nodes int, now time.Time) Allowed {
	pool, err := typed[karpv1.NodePool](object.Unstructured)
	if err != nil {
		return Allowed{Unreadable: true}
	}
	return allowedOf(pool, nodes, now)
}

// allowedOf reads it off a pool.
func allowedOf(pool *karpv1.NodePool, nodes int, now time.Time) Allowed {
	b, err := readBudgets(pool, nodes, karpv1.DisruptionReasonDrifted)
	if err != nil {
		return Allowed{Unreadable: true}
	}
	if n := b.at(now); n > 0 {
		return Allowed{Now: n}
	}
	turns, whole := b.turns(now, horizon)
	for _, turn := range turns {
		if n := b.at(turn); n > 0 {
			return Allowed{Next: n, At: turn}
		}
	}
	return Allowed{Partly: !whole}
}

// BudgetActive says whether a disruption budget, as it stands on a NodePool, counts now. One that
// cannot be read does not.
func BudgetActive(budget map[string]any, now time.Time) bool {
	var read karpv1.Budget
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(budget, &read); err != nil {
		return false
	}
	read.Reasons = nil
	pool := &karpv1.NodePool{}
	pool.Spec.Disruption.Budgets = []karpv1.Budget{read}
	budgets, err := readBudgets(pool, 0, karpv1.DisruptionReasonDrifted)
	return err == nil && budgets.all[0].active(now)
}

// ClockTime is a time as people write it, with its day where that is another one than now's.
func ClockTime(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04 UTC")
	}
	return t.Format("Mon 2 Jan 15:04 UTC")
}
