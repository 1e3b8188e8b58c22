package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestUpToSoManyNodes: an upper bound on the number of nodes is printed as "up to", an exact number is not.
func TestUpToSoManyNodes(t *testing.T) {
	report := newPlanReport(&planned{Plan: &plan.Plan{Changes: []plan.Change{
		{Ref: render.Ref{Kind: render.NodePool, Name: "batch"}, Action: plan.Update, Effect: plan.EffectReplace, Nodes: 7, UpTo: true},
		{Ref: render.Ref{Kind: render.NodePool, Name: "web"}, Action: plan.Update, Effect: plan.EffectReplace, Nodes: 5},
	}}})
	var table, encoded bytes.Buffer
	if err := report.print(&table); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]string{}
	for _, line := range strings.Split(table.String(), "\n") {
		if words := strings.Fields(line); len(words) > 3 {
			nodes[words[1]] = strings.Join(words[3:], " ")
		}
	}
	if nodes["NodePool/batch"] != "up to 7" || nodes["NodePool/web"] != "5" {
		t.Errorf("it prints:\n%s", table.String())
	}
	if err := json.NewEncoder(&encoded).Encode(report.Changes); err != nil {
		t.Fatal(err)
	}
	if got := encoded.String(); strings.Count(got, `"upTo":true`) != 1 || !strings.Contains(got, `"nodes":7,"upTo":true`) {
		t.Errorf("as JSON: %s", got)
	}
}
