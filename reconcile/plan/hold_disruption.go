package plan

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// holdLasts is how long a DisruptionHold is active without a renewal. The unusual duration identifies it: budgets in Git may last a whole day.
	holdLasts = "23h59m"
	holdFor   = 24*time.Hour - time.Minute
	// holdRenewal is how long before its end a DisruptionHold is renewed.
	holdRenewal = 12 * time.Hour
)

// DisruptionHold is a disruption budget of 0 nodes for every reason: Karpenter neither replaces nor consolidates nodes of the
// NodePool. Expiry, interruption and repair continue. It ends by itself within a day: without plumbline, nodes are
// replaced again.
type DisruptionHold struct {
	// From has a precision of a minute.
	From time.Time
}

// Held returns the disruption budgets of a NodePool in Git plus a DisruptionHold. If there is no room, Git's last one is dropped:
// under it none has an effect.
func Held(object render.Object, hold DisruptionHold) []any {
	budgets, at := slices.Clone(BudgetsOf(object.Defaulted)), hold.From.UTC()
	budgets = budgets[:min(len(budgets), MaxBudgets-1)]
	schedule := fmt.Sprintf("%d %d %d %d *", at.Minute(), at.Hour(), at.Day(), int(at.Month()))
	return append(budgets, map[string]any{"nodes": "0", "schedule": schedule, "duration": holdLasts})
}

// isHold reports whether a disruption budget is that of a DisruptionHold.
func isHold(budget any) bool {
	fields, _ := budget.(map[string]any)
	_, reasons := fields["reasons"]
	return fields["nodes"] == "0" && !reasons && (fields["duration"] == holdLasts || fields["duration"] == holdLasts+"0s")
}

// isHeld reports whether the last disruption budget of a live NodePool is a DisruptionHold.
func isHeld(live *unstructured.Unstructured) bool {
	budgets := BudgetsOf(live)
	return len(budgets) > 0 && isHold(budgets[len(budgets)-1])
}

// HoldOf returns until when a live NodePool has a DisruptionHold besides the disruption budgets of Git, applied by the brake's
// manager; zero if it has none.
func HoldOf(live *unstructured.Unstructured, object render.Object, now time.Time) time.Time {
	budgets := BudgetsOf(live)
	if !isHeld(live) || !BudgetsAppliedBy(live, v1alpha1.BrakeFieldManager) {
		return time.Time{}
	}
	git := BudgetsOf(object.Defaulted)
	if git = git[:min(len(git), MaxBudgets-1)]; len(git) != len(budgets)-1 || len(git) > 0 && !reflect.DeepEqual(budgets[:len(git)], git) {
		return time.Time{}
	}
	fields, _ := budgets[len(budgets)-1].(map[string]any)
	schedule, _ := fields["schedule"].(string)
	from := nearestStart(schedule, now)
	if from.IsZero() || from.After(now) {
		return time.Time{}
	}
	return from.Add(holdFor)
}

// RenewHold returns when a DisruptionHold that ends at a time is renewed.
func RenewHold(until time.Time) time.Time { return until.Add(-holdRenewal) }
