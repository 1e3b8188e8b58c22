package plan

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// drifted is the reason in the disruption budgets that plumbline sets.
const drifted = string(karpv1.DisruptionReasonDrifted)

// leaseLasts is how long a budget with a yearly schedule is active. It expires before the next start, so that the budget
// is inactive until then.
const leaseLasts = "8640h"

// Lease is how many nodes of a NodePool Karpenter may replace for drift at a time, and until when. It expires by itself:
// if reconciles fail, the NodeSync is suspended or the daemon is gone, Karpenter replaces no more nodes from then on.
// Removals and waves of a rollout use it.
type Lease struct {
	// Nodes is how many at a time; with 0, none is replaced, and Until has no meaning. With AllNodes, only other budgets limit
	// how many.
	Nodes int
	// Until has a precision of a minute.
	Until time.Time
}

// AllNodes is the number of nodes of a Lease that limits only until when nodes are replaced.
const AllNodes = math.MaxInt32

// allNodes is the value of its disruption budget.
const allNodes = "100%"

// Budgets returns the disruption budgets of a Lease. The most restrictive budget for a reason applies
// (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go): at Until, a budget of 0 nodes becomes active.
func (l Lease) Budgets() []any {
	var budgets []any
	if l.Nodes > 0 {
		at := l.Until.UTC()
		schedule := fmt.Sprintf("%d %d %d %d *", at.Minute(), at.Hour(), at.Day(), int(at.Month()))
		budgets = append(budgets, map[string]any{"nodes": "0", "reasons": []any{drifted}, "schedule": schedule, "duration": leaseLasts})
	}
	nodes := strconv.Itoa(l.Nodes)
	if l.Nodes == AllNodes {
		nodes = allNodes
	}
	return append(budgets, map[string]any{"nodes": nodes, "reasons": []any{drifted}})
}

// OfLease reports whether a disruption budget may be one of a Lease, and returns its fields. Git may have the same budget
// without a schedule.
func OfLease(budget any) (fields map[string]any, is bool) {
	fields, _ = budget.(map[string]any)
	_, scheduled := fields["schedule"]
	return fields, reflect.DeepEqual(fields["reasons"], []any{drifted}) && (!scheduled || fields["duration"] == leaseLasts || fields["duration"] == leaseLasts+"0m0s")
}

// LeaseIn reads a Lease from its disruption budgets among others; zero if there are none.
func LeaseIn(budgets []any, now time.Time) Lease {
	var l Lease
	for _, b := range budgets {
		fields, is := OfLease(b)
		if !is {
			continue
		}
		if schedule, has := fields["schedule"].(string); has {
			l.Until = nearestStart(schedule, now)
		} else if fields["nodes"] == allNodes {
			l.Nodes = AllNodes
		} else if n, err := strconv.Atoi(fmt.Sprint(fields["nodes"])); err == nil {
			l.Nodes = n
		}
	}
	return l
}

// WithoutLeftover returns the disruption budgets in force of a NodePool without a Lease at their end: once another client
// has edited them, they no longer belong to the brake's manager. Git's may end in the same budgets.
func WithoutLeftover(inForce, git []any) []any {
	others, lease := splitLease(inForce)
	if _, same := splitLease(git); lease == nil || reflect.DeepEqual(same, lease) {
		return inForce
	}
	return others
}

// splitLease returns disruption budgets without the Lease at their end, and that Lease's budgets; nil if there is none.
func splitLease(budgets []any) (others, lease []any) {
	at := len(budgets) - 2
	if at < 0 {
		return budgets, nil
	}
	expiry, is := OfLease(budgets[at])
	_, scheduled := expiry["schedule"]
	last, ends := OfLease(budgets[at+1])
	if _, another := last["schedule"]; !is || !scheduled || !ends || another {
		return budgets, nil
	}
	return slices.Clip(budgets[:at]), budgets[at:]
}

// nearestStart returns the time in the schedule of a Lease that is closest to now.
func nearestStart(schedule string, now time.Time) time.Time {
	var minute, hour, day, month int
	if _, err := fmt.Sscanf(schedule, "%d %d %d %d *", &minute, &hour, &day, &month); err != nil {
		return time.Time{}
	}
	var nearest time.Time
	for _, year := range []int{now.UTC().Year() - 1, now.UTC().Year(), now.UTC().Year() + 1} {
		at := time.Date(year, time.Month(month), day, hour, minute, 0, 0, time.UTC)
		if nearest.IsZero() || at.Sub(now).Abs() < nearest.Sub(now).Abs() {
			nearest = at
		}
	}
	return nearest
}
