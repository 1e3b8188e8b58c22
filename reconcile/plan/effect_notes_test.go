package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWhatAChangeSaysBesideItsEffect: limits below what runs, budgets that never allow, when Karpenter
// consolidates, and which pool it launches from.
func TestWhatAChangeSaysBesideItsEffect(t *testing.T) {
	disruption := func(text string) string { return "disruption: {" + text + "}" }
	budgets := func(text string) string { return disruption("consolidateAfter: 0s, budgets: [" + text + "]") }
	for name, test := range map[string]struct {
		before, after   string
		warnings, notes []string
	}{
		"limits above what runs":     {after: `limits: {cpu: "13"}`},
		"limits below what runs":     {after: `limits: {cpu: "11", memory: 100Gi}`, warnings: []string{"NodePool/a: limits.cpu 11 is below the 12 that run"}},
		"limits that were below":     {before: `limits: {cpu: "11"}`, after: `limits: {cpu: "10"}`},
		"limits raised, still below": {before: `limits: {cpu: "20"}`, after: `limits: {cpu: "5"}`, warnings: []string{"NodePool/a: limits.cpu 5 is below the 12 that run"}},
		"budgets that allow none":    {after: budgets(`{nodes: "0"}`), warnings: []string{"NodePool/a: its disruption budgets allow none of its 3 nodes to be replaced for drift within 31 days"}},
		"a window that comes":        {after: budgets(`{nodes: "0", schedule: "0 0 * * 0-5", duration: 24h}, {nodes: "2"}`)},
		"a window of no day":         {after: budgets(`{nodes: "0", schedule: "0 0 * * *", duration: 24h}, {nodes: "2"}`), warnings: []string{"NodePool/a: its disruption budgets allow none"}},
		"a day that never comes":     {after: budgets(`{nodes: "0", schedule: "0 0 30 2 *", duration: 24h}, {nodes: "2"}`), warnings: []string{"NodePool/a: the schedule \"0 0 30 2 *\" of a disruption budget never matches, and Karpenter takes such a budget to be active at all times"}},
		"budgets that allowed none":  {before: budgets(`{nodes: "0"}`), after: budgets(`{nodes: "0"}`) + "\n  weight: 7", notes: []string{"NodePool/a: weight 0 to 7"}},
		"consolidateAfter":           {before: disruption("consolidateAfter: 30s"), after: disruption("consolidateAfter: 1h"), notes: []string{"NodePool/a: consolidateAfter 30s to 1h: how long Karpenter waits"}},
		"no consolidation":           {before: disruption("consolidateAfter: 30s"), after: disruption("consolidateAfter: Never"), notes: []string{"NodePool/a: consolidateAfter 30s to Never: Karpenter consolidates none of its nodes any more"}},
		"consolidationPolicy":        {before: disruption("consolidateAfter: 0s, consolidationPolicy: WhenEmpty"), after: disruption("consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized"), notes: []string{"NodePool/a: consolidationPolicy WhenEmpty to WhenEmptyOrUnderutilized"}},
		"weight":                     {before: "weight: 10", after: "weight: 90", notes: []string{"NodePool/a: weight 10 to 90"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default", test.before))
			c.Edit(t, poolRef("a"), "karpenter", func(o *unstructured.Unstructured) {
				o.Object["status"] = map[string]any{"resources": map[string]any{"cpu": "12", "memory": "48Gi", "nodes": "3"}}
			})
			c.live.NodeClaims = claims("a", 3)
			c.policy.Now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
			p := c.plan(t, class("default"), pool("a", "default", test.after))
			begins := cmp.Comparer(func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) })
			if diff := cmp.Diff(test.warnings, p.Changes[0].Warnings, begins); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.notes, p.Changes[0].Notes, begins); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}
