package plan

import (
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// horizon is how far ahead windows of disruption budgets are looked for, and hits how many times
// of one schedule are looked at: one that hits each minute is not looked at for so long.
const (
	horizon = 31 * 24 * time.Hour
	hits    = 2000
)

// Allowed is how many of a NodePool's nodes Karpenter may replace for drift.
type Allowed struct {
	// Now is how many that is at the time, and Next from At on, where Now is 0. At is zero where
	// that is not within 31 days.
	Now, Next int
	At        time.Time
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
	allowed, err := pool.GetAllowedDisruptionsByReason(at{now: now}, nodes, karpv1.DisruptionReasonDrifted)
	switch {
	case err != nil:
		return Allowed{Unreadable: true}
	case allowed > 0:
		return Allowed{Now: min(allowed, nodes)}
	}
	for _, turn := range turns(pool, now) {
		if n := allowedDisruptions(pool, nodes, turn); n > 0 {
			return Allowed{Next: n, At: turn}
		}
	}
	return Allowed{}
}

// BudgetActive says whether a disruption budget, as it stands on a NodePool, counts now. One that
// cannot be read does not.
func BudgetActive(budget map[string]any, now time.Time) bool {
	var read karpv1.Budget
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(budget, &read); err != nil {
		return false
	}
	active, err := read.IsActive(at{now: now})
	return err == nil && active
}

// turns are the times within the horizon at which a budget begins or ceases to be active, sorted.
// Karpenter reads schedules in UTC, and a budget is active up to its duration after a hit
// (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go IsActive).
func turns(pool *karpv1.NodePool, now time.Time) []time.Time {
	var found []time.Time
	for _, budget := range pool.Spec.Disruption.Budgets {
		if budget.Schedule == nil || budget.Duration == nil {
			continue
		}
		schedule, err := cron.ParseStandard("TZ=UTC " + *budget.Schedule)
		if err != nil {
			continue
		}
		hit := now.Add(-budget.Duration.Duration).UTC()
		for range hits {
			hit = schedule.Next(hit)
			if hit.IsZero() || hit.After(now.Add(horizon)) {
				break
			}
			found = append(found, hit, hit.Add(budget.Duration.Duration))
		}
	}
	found = slices.DeleteFunc(found, func(t time.Time) bool { return !t.After(now) })
	slices.SortFunc(found, time.Time.Compare)
	return slices.CompactFunc(found, time.Time.Equal)
}

// ClockTime is a time as people write it, with its day where that is another one than now's.
func ClockTime(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04 UTC")
	}
	return t.Format("Mon 2 Jan 15:04 UTC")
}
