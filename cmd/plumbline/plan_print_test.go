package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
	"github.com/plumbline-dev/plumbline/redact"
)

// aPlan has a row of each kind.
func aPlan() planReport {
	return planReport{
		Plan: planjson.Plan{
			Revision: "main@sha1:0123",
			Changes: []planjson.Change{
				{Object: "EC2NodeClass/default", Action: "Create", Effect: "None"},
				{Object: "NodePool/f2", Action: "Create", Effect: "None"},
				{Object: "NodePool/g2", Action: "Create", Effect: "None"},
				{Object: "NodePool/a", Action: "Update", Effect: "None", Message: "NodePool/a differs at spec.limits.cpu", Fields: []planjson.Field{{Path: "spec.limits.cpu", From: "100", To: "200"}, {Path: "spec.weight", To: "10"}}},
				{Object: "NodePool/b", Action: "Update", Effect: "Replace", Nodes: 3, UpTo: true, Fields: []planjson.Field{{Path: "spec.template.spec.taints", From: "", To: "a\u202eb|c"}}},
				{Object: "NodePool/c", Action: "Hold", Effect: "Replace", Nodes: 4, Message: "4 nodes would be disrupted, and guard.maxDisruptedNodes allows 3: set it to 4"},
			},
			Removals: []planjson.Removal{
				{Object: "NodePool/d", Nodes: 2},
				{Object: "NodePool/e", Nodes: 1, Held: true, Message: "one more than guard.maxRemovedPools"},
				{Object: "NodePool/f", Kind: "NodePool", Nodes: 12, MovesTo: []string{"f2"}},
				{Object: "NodePool/g", Kind: "NodePool", Nodes: 1, MovesTo: []string{"g2"}, Held: true, Message: "two more than guard.maxRemovedPools"},
			},
		},
		Warnings: []string{"its disruption budgets let Karpenter disrupt all"},
		Held:     3,
	}
}

func TestPlanPrints(t *testing.T) {
	for name, print := range map[string]func(planReport, io.Writer) error{"plan.table": planReport.print, "plan.md": planReport.printMarkdown} {
		var out bytes.Buffer
		if err := print(aPlan(), &visibleWriter{&out}); err != nil {
			t.Fatal(err)
		}
		golden(t, name, out.String())
		if !redact.IsVisible(out.String()) {
			t.Errorf("%s shows not all that it has: %q", name, out.String())
		}
	}
}

func TestPlanSummary(t *testing.T) {
	for want, report := range map[string]planReport{
		"no change": {},
		"2 to create, 2 to change, 1 to move, 1 to remove, 3 held; up to 17 nodes drain or are replaced": aPlan(),
		"1 to remove; 1 node drains or is replaced":                                                      {Plan: planjson.Plan{Removals: []planjson.Removal{{Nodes: 1}}}},
		"1 refused; 0 nodes drain or are replaced":                                                       {Plan: planjson.Plan{Changes: []planjson.Change{{Action: "Refuse", Effect: "Blocked"}}}},
		"": {Stopped: "refused"},
	} {
		if got := report.summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
