package plan

import (
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// budgets are the disruption budgets of a pool of so many nodes that count for a reason, with their
// schedules read once. They are read as Karpenter reads them: in UTC, and active up to their duration
// after a hit (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go IsActive, 1.14.1).
type budgets struct {
	nodes int
	all   []budget
}

// budget is one of them; without a schedule it is always active.
type budget struct {
	allowed  int
	schedule cron.Schedule
	duration time.Duration
}

// readBudgets reads those for a reason. An error, also of one for other reasons, means that Karpenter disrupts nothing.
func readBudgets(pool *karpv1.NodePool, nodes int, reason karpv1.DisruptionReason) (budgets, error) {
	b := budgets{nodes: nodes}
	for _, is := range pool.Spec.Disruption.Budgets {
		amount := karpv1.GetIntStrFromValue(is.Nodes)
		allowed, err := intstr.GetScaledValueFromIntOrPercent(&amount, nodes, true)
		if err != nil {
			return budgets{}, err
		}
		one := budget{allowed: allowed, duration: ptr.Deref(is.Duration, metav1.Duration{}).Duration}
		if is.Schedule != nil || is.Duration != nil {
			if one.schedule, err = cron.ParseStandard("TZ=UTC " + ptr.Deref(is.Schedule, "")); err != nil {
				return budgets{}, err
			}
		}
		if is.Reasons == nil || slices.Contains(is.Reasons, reason) {
			b.all = append(b.all, one)
		}
	}
	return b, nil
}

// active says whether it counts at a time. A schedule that never hits counts always.
func (b budget) active(t time.Time) bool {
	return b.schedule == nil || !b.schedule.Next(t.UTC().Add(-b.duration)).After(t.UTC())
}

// at is how many nodes they allow to be replaced at a time.
func (b budgets) at(t time.Time) int {
	n := b.nodes
	for _, one := range b.all {
		if one.allowed < n && one.active(t) {
			n = one.allowed
		}
	}
	return n
}

// always is what those allow that have no schedule: they never allow more.
func (b budgets) always() int {
	n := b.nodes
	for _, one := range b.all {
		if one.schedule == nil {
			n = min(n, one.allowed)
		}
	}
	return n
}

// widest is the most that they allow at any time within a duration; whole reports whether all of it was
// looked at.
func (b budgets) widest(now time.Time, within time.Duration) (n int, whole bool) {
	n = b.at(now)
	turns, whole := b.turns(now, within)
	for _, turn := range turns {
		if n >= b.always() {
			return n, true
		}
		n = max(n, b.at(turn))
	}
	return n, whole || n >= b.always()
}

// most is the most that they allow at any time within a year; what cannot be looked at whole counts as open.
func (b budgets) most(now time.Time) int {
	if now.IsZero() {
		return b.always()
	}
	if n, whole := b.widest(now, year); whole {
		return n
	}
	return b.always()
}

// turns are the times within a duration at which one begins or ceases to be active, sorted; whole reports
// whether these are all, and not only the first of them.
func (b budgets) turns(now time.Time, within time.Duration) (found []time.Time, whole bool) {
	end := now.Add(within)
	each, cut := min(hits, looked/max(1, len(b.all))), time.Time{}
	for _, one := range b.all {
		if one.schedule == nil {
			continue
		}
		hit, last := now.Add(-one.duration).UTC(), true
		for range each {
			if hit = one.schedule.Next(hit); hit.IsZero() || hit.After(end) {
				last = false
				break
			}
			found = append(found, hit, hit.Add(one.duration))
		}
		if last && (cut.IsZero() || hit.Before(cut)) {
			cut = hit
		}
	}
	found = slices.DeleteFunc(found, func(t time.Time) bool { return !t.After(now) || !cut.IsZero() && t.After(cut) })
	slices.SortFunc(found, time.Time.Compare)
	found = slices.CompactFunc(found, time.Time.Equal)
	return found[:min(len(found), hits)], cut.IsZero() && len(found) <= hits
}
