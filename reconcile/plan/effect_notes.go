package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// limitWarnings name the limits of a pool that are, by a change, below what runs. Karpenter counts
// that in the pool's status, and ends no node for a limit.
func limitWarnings(before, after *karpv1.NodePool) []string {
	var found []string
	for _, name := range loweredLimits(before, after) {
		limit, runs := after.Spec.Limits[name], before.Status.Resources[name]
		found = append(found, fmt.Sprintf("limits.%s %s is below the %s that run: it launches no node until less runs, and no node ends for it; a node that is to be replaced gets its replacement elsewhere or waits",
			name, limit.String(), runs.String()))
	}
	return found
}

// loweredLimits are the limits that are below what runs, and were not before.
func loweredLimits(before, after *karpv1.NodePool) []corev1.ResourceName {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(after.Spec.Limits)), func(name corev1.ResourceName) bool {
		limit, runs := after.Spec.Limits[name], before.Status.Resources[name]
		was, limited := before.Spec.Limits[name]
		return runs.Cmp(limit) <= 0 || limited && runs.Cmp(was) > 0
	})
}

// shutWarning says that disruption budgets, by a change, never allow a node to be replaced for drift,
// as far as windows are looked for; empty where they do.
func shutWarning(before, after *karpv1.NodePool, nodes int, now time.Time) string {
	if nodes == 0 || now.IsZero() || slices.EqualFunc(before.Spec.Disruption.Budgets, after.Spec.Disruption.Budgets, sameBudget) {
		return ""
	}
	allowed := allowedOf(after, nodes, now)
	if allowed.Unreadable {
		return "a schedule of its disruption budgets cannot be read: Karpenter disrupts none of its nodes"
	}
	if allowed.Now > 0 || !allowed.At.IsZero() {
		return ""
	}
	if schedule := neverMatches(after, now); schedule != "" {
		return fmt.Sprintf("the schedule %q of a disruption budget never matches, and Karpenter takes such a budget to be active at all times: it allows no node to be replaced for drift", schedule)
	}
	if allowed.Partly {
		return ""
	}
	return fmt.Sprintf("its disruption budgets allow none of its %s to be replaced for drift within 31 days: what a commit changes does not reach them", english.Plural(nodes, "node", ""))
}

// neverMatches is a schedule of a pool's budgets that has no next time; empty where there is none.
// Karpenter asks whether that lies behind the present, which the zero time does (IsActive in karpenter
// pkg/apis/v1/nodepool.go, 1.14.1).
func neverMatches(pool *karpv1.NodePool, now time.Time) string {
	for _, budget := range pool.Spec.Disruption.Budgets {
		if budget.Schedule == nil {
			continue
		}
		if schedule, err := cron.ParseStandard("TZ=UTC " + *budget.Schedule); err == nil && schedule.Next(now).IsZero() {
			return *budget.Schedule
		}
	}
	return ""
}

func sameBudget(a, b karpv1.Budget) bool {
	return a.Nodes == b.Nodes && slices.Equal(a.Reasons, b.Reasons) && ptr.Equal(a.Schedule, b.Schedule) && ptr.Equal(a.Duration, b.Duration)
}

// poolNotes are what a change does beside nodes that are replaced or end: when Karpenter consolidates,
// and which pool it launches from.
func poolNotes(before, after *karpv1.NodePool) []string {
	var notes []string
	note := func(format string, args ...any) {
		notes = append(notes, "NodePool/"+after.Name+": "+fmt.Sprintf(format, args...))
	}
	if was, is := before.Spec.Disruption.ConsolidateAfter, after.Spec.Disruption.ConsolidateAfter; !ptr.Equal(was.Duration, is.Duration) {
		note("consolidateAfter %s to %s: %s", waitWords(was), waitWords(is), consolidates(is))
	}
	if was, is := before.Spec.Disruption.ConsolidationPolicy, after.Spec.Disruption.ConsolidationPolicy; was != is {
		note("consolidationPolicy %s to %s: which of its nodes Karpenter may consolidate changes at once, within its budgets", cmp.Or(was, "none"), cmp.Or(is, "none"))
	}
	if was, is := ptr.Deref(before.Spec.Weight, 0), ptr.Deref(after.Spec.Weight, 0); was != is {
		note("weight %d to %d: new nodes come from the pool with the highest weight whose requirements fit; those that run stay", was, is)
	}
	return notes
}

func consolidates(after karpv1.NillableDuration) string {
	if after.Duration == nil {
		return "Karpenter consolidates none of its nodes any more"
	}
	return "how long Karpenter waits after a pod was added or removed before it consolidates a node"
}

func waitWords(d karpv1.NillableDuration) string {
	if d.Duration == nil {
		return karpv1.Never
	}
	return Short(*d.Duration)
}
