package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/redact"
)

// aPlan has a row of each kind.
func aPlan() planReport {
	return planReport{
		Revision: "main@sha1:0123",
		Changes: []changeReport{
			{Object: "EC2NodeClass/default", Action: plan.Create, Effect: plan.EffectNone},
			{Object: "NodePool/a", Action: plan.Update, Effect: plan.EffectNone, Message: "NodePool/a differs at spec.limits.cpu", Fields: []plan.Field{{Path: "spec.limits.cpu", From: "100", To: "200"}, {Path: "spec.weight", To: "10"}}},
			{Object: "NodePool/b", Action: plan.Update, Effect: plan.EffectReplace, Nodes: 3, UpTo: true, Fields: []plan.Field{{Path: "spec.template.spec.taints", From: "", To: "a\u202eb|c"}}},
			{Object: "NodePool/c", Action: plan.Hold, Effect: plan.EffectReplace, Nodes: 4, Message: "4 nodes would be disrupted, and guard.maxDisruptedNodes allows 3: set it to 4"},
		},
		Removals: []removalReport{{Object: "NodePool/d", Nodes: 2}, {Object: "NodePool/e", Nodes: 1, Held: true, Message: "one more than guard.maxRemovedPools"}},
		Warnings: []string{"its disruption budgets let Karpenter disrupt all"},
		Held:     2,
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
		"1 to create, 2 to change, 1 to remove, 2 held; up to 5 nodes drain or are replaced": aPlan(),
		"1 to remove; 1 node drains or is replaced":                                          {Removals: []removalReport{{Nodes: 1}}},
		"1 refused; 0 nodes drain or are replaced":                                           {Changes: []changeReport{{Action: plan.Refuse, Effect: plan.EffectBlocked}}},
		"": {Stopped: "refused"},
	} {
		if got := report.summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
