package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/redact"
)

// TestPlanPrintsRefusals: what stops a reconcile is printed alone, and a refusal of the charts before what is done
// anyway.
func TestPlanPrintsRefusals(t *testing.T) {
	change := &plan.Plan{Changes: []plan.Change{{Action: plan.Create}}}
	terminal := &fault.Error{Class: fault.Terminal, Err: errors.New("refused: cluster.name is fixed")}
	waiting := &fault.Error{Class: fault.Waiting, Err: errors.New("waiting for the schema: no CRD")}
	for name, c := range map[string]struct {
		planned planned
		want    string
		code    int
	}{
		"nothing":       {planned: planned{Plan: &plan.Plan{}}, want: "no change\n", code: exitDone},
		"stopped":       {planned: planned{Plan: &plan.Plan{}, stopped: errorWords(terminal, redact.Redactor{}), waits: resolvesItself(terminal)}, want: "refused as a whole: cluster.name is fixed\n", code: exitFailed},
		"mistakes":      {planned: planned{Plan: &plan.Plan{}, stopped: "a.yaml:1: b (and 1 more)\na.yaml:1: b\nc.yaml:2: d"}, want: "a.yaml:1: b\nc.yaml:2: d\nrefused as a whole: 2 errors\n", code: exitFailed},
		"waits":         {planned: planned{Plan: &plan.Plan{}, stopped: errorWords(waiting, redact.Redactor{}), waits: resolvesItself(waiting)}, want: "waits: the schema: no CRD\n", code: exitFailed},
		"charts":        {planned: planned{Plan: &plan.Plan{}, chartsRefused: "no such version"}, want: "the charts are not changed: no such version\nno change\n", code: exitFailed},
		"charts, and a": {planned: planned{Plan: change, chartsRefused: "no such version"}, want: "the charts are not changed: no such version\nACTION", code: exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			report := newPlanReport(&c.planned)
			var out strings.Builder
			if err := report.print(&out); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(out.String(), c.want) {
				t.Errorf("prints %q, want %q", out.String(), c.want)
			}
			code, exit := exitDone, (*exitError)(nil)
			if errors.As(report.exit(), &exit) {
				code = exit.code
			}
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
		})
	}
}
