package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/redact"
)

// screenful is how many pools and removals fit on one screen with the rest.
const screenful = 10

// rows is how many of them are shown.
func (r statusReport) rows() int {
	if r.all {
		return math.MaxInt
	}
	return screenful
}

// now is when the report is printed.
func (r statusReport) now() time.Time {
	if r.at.IsZero() {
		return time.Now()
	}
	return r.at
}

// print shows the report to people.
func (r statusReport) print(out io.Writer) {
	if r.Unled != "" {
		fmt.Fprintln(out, r.Unled)
		fmt.Fprintf(out, "nodesync/%s: %s\n", r.Name, r.State)
	} else {
		fmt.Fprintf(out, "nodesync/%s: %s%s\n", r.Name, r.Headline(), summary.LastedFor(r.Since, r.now()))
	}
	r.printMessage(out)
	fmt.Fprintln(out)
	for _, line := range r.Lines() {
		fmt.Fprintf(out, "%-10s %s%s\n", line.About, line.Text, summary.LastedFor(line.Since, r.now()))
	}
	r.printStages(out)
	r.printPools(out)
	r.printRemovals(out)
	r.printBreakGlass(out)
}

// printMessage shows what the daemon says: of many mistakes in a commit, the first.
func (r statusReport) printMessage(out io.Writer) {
	if r.Message == "" {
		return
	}
	lines := mistakes(r.Message)
	rows := min(r.rows(), len(lines))
	for _, line := range lines[:rows] {
		fmt.Fprintf(out, "  %s\n", redact.Visible(line))
	}
	if more := len(lines) - rows; more > 0 {
		fmt.Fprintf(out, "  and %s (--all)\n", english.Plural(more, "more line", ""))
	}
}

func (r statusReport) printStages(out io.Writer) {
	if len(r.Stages) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := newFittedTable(out, "STAGE", "STATE", "MESSAGE")
	for _, s := range r.Stages {
		t.AppendRow([]any{s.Name, s.State, oneLine(s.Message)})
	}
	t.Render()
}

// printPools shows the pools that a person looks for, and sums the others up.
func (r statusReport) printPools(out io.Writer) {
	if r.Unread != "" {
		fmt.Fprintf(out, "\npools      not shown: %s\n", r.Unread)
	}
	if len(r.Pools) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := newNarrowedTable(out, 0, []int{6, 5, 3}, "POOL", "READY", "NODES", "DRIFTED", "DRAINING", "LIMIT USED", "AGE")
	all := summary.Notable(r.Pools)
	rows := min(r.rows(), len(all))
	for _, p := range all[:rows] {
		t.AppendRow([]any{p.Name, truth(p.Ready), p.Nodes, p.Drifted, p.Draining, p.LimitUsed, summary.Age(p.Created, r.now())})
	}
	t.Render()
	if len(all) > rows {
		fmt.Fprintf(out, "%s (--all)\n", summary.OtherPools(all[rows:]))
	}
}

// truth is a condition's status.
func truth(is bool) metav1.ConditionStatus {
	if is {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

func (r statusReport) printRemovals(out io.Writer) {
	if len(r.Removals) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := newFittedTable(out, "REMOVAL", "PHASE", "LEFT", "AGE", "WAITS FOR")
	rows := min(r.rows(), len(r.Removals))
	for _, removal := range r.Removals[:rows] {
		t.AppendRow([]any{plan.Moved(removal.Kind+"/"+removal.Name, removal.MovesTo), summary.PhaseWord(removal), removal.Remaining, summary.Age(removal.RecordedAt, r.now()), summary.WaitsFor(removal, r.now())})
	}
	t.Render()
	if more := len(r.Removals) - rows; more > 0 {
		fmt.Fprintf(out, "and %d more (--all)\n", more)
	}
}

// printBreakGlass shows the commands that would terminate nodes past what keeps them, each with its risk.
func (r statusReport) printBreakGlass(out io.Writer) {
	var all []v1alpha1.BreakGlass
	for _, removal := range r.Removals {
		all = append(all, removal.BreakGlass...)
	}
	for _, t := range r.Terminations {
		if t.BreakGlass != nil {
			all = append(all, *t.BreakGlass)
		}
	}
	if len(all) > 0 {
		fmt.Fprint(out, "\nto end what is stalled all the same, at your own risk; plumbline runs none of these:\n")
	}
	for _, g := range all {
		fmt.Fprintf(out, "  %s, %s: %s\n    # risk: %s\n", redact.Visible(g.Node), g.Cause, redact.Visible(g.Command), redact.Visible(g.Risk))
	}
}

// orNone is a word, or that there is none yet.
func orNone(word string) string { return summary.OrNone(word) }

// short is a duration without the zeros that Go prints.
func short(d time.Duration) string { return plan.Short(d) }
