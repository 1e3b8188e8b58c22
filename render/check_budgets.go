package render

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// warnOfBudgets names the reasons for which no disruption budget limits Karpenter, or none outside certain hours; empty if all are
// limited. A NodePool without budgets has Karpenter's default of 10% for all reasons, and budgets that are written replace it
// (karpenter pkg/apis/v1/nodepool.go, Disruption.Budgets and GetAllowedDisruptionsByReason, 1.14.1).
func warnOfBudgets(object Object) string {
	budgets := list(object.Desired, "spec", "disruption", "budgets")
	if object.Ref.Kind != NodePool || len(budgets) == 0 {
		return ""
	}
	var unlimited []string
	limitedAt := map[string][]string{}
	for _, reason := range disruptionReasons(object) {
		switch hours, limits := hoursOf(budgets, reason); {
		case !limits:
			unlimited = append(unlimited, reason)
		case len(hours) > 0:
			at := strings.Join(hours, " and ")
			limitedAt[at] = append(limitedAt[at], reason)
		}
	}
	var found []string
	if len(unlimited) > 0 {
		found = append(found, fmt.Sprintf("%s: no disruption budget limits %s: Karpenter may disrupt all of its nodes at a time for %s; add a budget without reasons",
			object.Ref, english.WordSeries(unlimited, "and"), english.PluralWord(len(unlimited), "it", "them")))
	}
	for _, at := range slices.Sorted(maps.Keys(limitedAt)) {
		reasons := limitedAt[at]
		found = append(found, fmt.Sprintf("%s: disruption budgets limit %s only at %s: at all other times Karpenter may disrupt all of its nodes for %s; add a budget without a schedule",
			object.Ref, english.WordSeries(reasons, "and"), at, english.PluralWord(len(reasons), "it", "them")))
	}
	return sentences(found...)
}

// disruptionReasons are those for which Karpenter may disrupt nodes of a NodePool within its budgets, in its own spelling.
func disruptionReasons(object Object) []string {
	reasons := []string{"Drifted"}
	field := func(path ...string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(object.Desired.Object, append([]string{"spec"}, path...)...)
		return value
	}
	if field("replicas") != nil || field("disruption", "consolidateAfter") == "Never" {
		return reasons // Karpenter does not consolidate the pool
	}
	reasons = append(reasons, "Empty")
	if field("disruption", "consolidationPolicy") != "WhenEmpty" {
		reasons = append(reasons, "Underutilized")
	}
	return reasons
}

// hoursOf are the schedules of the budgets for a reason, if all of them have one; limits reports whether there is any budget for it.
func hoursOf(budgets []map[string]any, reason string) (hours []string, limits bool) {
	always := false
	for _, budget := range budgets {
		reasons, named := budget["reasons"].([]any)
		if named && !slices.Contains(reasons, any(reason)) {
			continue
		}
		limits = true
		if schedule, ok := budget["schedule"].(string); ok {
			hours = append(hours, fmt.Sprintf("%q for %v (UTC)", schedule, budget["duration"]))
		} else {
			always = true
		}
	}
	if always {
		return nil, true
	}
	return hours, limits
}
