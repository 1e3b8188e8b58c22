package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// maxFields is the maximum number of fields listed for one object.
const maxFields = 20

// print prints the Plan as text.
func (r planReport) print(out io.Writer) error {
	r.printRefusals(out)
	r.printCharts(out)
	paint := display.Paint(out)
	before := ""
	if t := r.table(out, paint, oneLine); t.Length() > 0 {
		t.Render()
		before = "\n"
	}
	r.printFields(out, paint)
	for i, line := range r.nodeLines() {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, redact.Visible(line))
	}
	if r.AutoMode != "" {
		fmt.Fprintln(out, redact.Visible(r.AutoMode))
	}
	for _, words := range r.unknown() {
		fmt.Fprintln(out, redact.Visible(words))
	}
	r.WhatIf.print(out)
	for _, warning := range r.Warnings {
		fmt.Fprintln(out, "warning: "+redact.Visible(warning))
	}
	if summary := r.summary(); summary != "" {
		fmt.Fprintln(out, before+summary)
	}
	if r.Approval != "" {
		fmt.Fprintln(out, redact.Visible(r.Approval))
	}
	return nil
}

// printMarkdown prints the Plan as a comment on a pull request.
func (r planReport) printMarkdown(out io.Writer) error {
	if r.Revision != "" {
		fmt.Fprintf(out, "**plumbline plan** of `%s`\n\n", redact.Visible(r.Revision))
	}
	var first strings.Builder
	r.printRefusals(&first)
	r.printCharts(&first)
	if first.Len() > 0 {
		fmt.Fprintf(out, "```\n%s```\n\n", strings.ReplaceAll(first.String(), "```", "\u02cb\u02cb\u02cb"))
	}
	if t := r.table(out, display.Plain, code); t.Length() > 0 {
		t.RenderMarkdown()
		if len(r.nodeLines())+len(r.unknown())+len(r.Warnings) > 0 {
			fmt.Fprintln(out)
		}
	}
	for _, line := range r.nodeLines() {
		fmt.Fprintf(out, "- %s\n", code(line))
	}
	if r.AutoMode != "" {
		fmt.Fprintf(out, "- %s\n", code(r.AutoMode))
	}
	for _, words := range r.unknown() {
		fmt.Fprintf(out, "- %s\n", code(words))
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(out, "- warning: %s\n", code(warning))
	}
	r.WhatIf.printMarkdown(out)
	if summary := r.summary(); summary != "" {
		fmt.Fprintf(out, "\n%s\n", summary)
	}
	return nil
}

// code returns text of a commit as code in Markdown, on one line.
func code(words string) string { return report.Code(oneLine(words)) }

// printCharts prints what is done with Karpenter's charts.
func (r planReport) printCharts(out io.Writer) {
	if r.Adoption != nil {
		printAdoption(out, r.Adoption)
	}
	if r.Charts != "" {
		fmt.Fprintln(out, redact.Visible(r.Charts))
	}
	if r.Upgrade != nil {
		r.Upgrade.print(out)
	}
	for _, line := range r.Rights.Lines() {
		fmt.Fprintln(out, redact.Visible("iam: "+line))
	}
}

// table returns a table with a row for each change and each removal.
func (r planReport) table(out io.Writer, paint display.Painter, quote func(string) string) table.Writer {
	if r.Offline {
		return r.offlineTable(out, paint)
	}
	t := display.NewFittedTable(display.Painted(out), "ACTION", "OBJECT", "EFFECT", "NODES", "WHAT")
	targets := review.Targets(r.Plan)
	for _, c := range r.Changes {
		if targets[c.Object] && c.Action == string(plan.Create) {
			continue // the row of the move names it
		}
		t.AppendRow([]any{paint(c.Action, colourOf(plan.Action(c.Action))), redact.Visible(c.Object), c.Effect, nodesOf(c), quote(whatOf(c))})
	}
	for _, removal := range r.Removals {
		action, colour, why := "Remove", text.FgRed, review.Left(removal.MovesTo)
		if len(removal.MovesTo) > 0 {
			action, colour = "Move", text.FgYellow
		}
		effect, nodes := plan.EffectDrain, any(removal.Nodes)
		switch {
		case removal.Orphan:
			action, colour, why, effect, nodes = "Orphan", text.FgYellow, "removed from Git; kept, no longer managed", plan.EffectNone, removal.Leaves
		case removal.UpTo:
			effect, nodes = plan.EffectConsolidate, fmt.Sprintf("up to %d", removal.Nodes)
		case removal.Kind == render.NodeOverlay, removal.Kind == render.CapacityBuffer:
			effect = plan.EffectNone
		}
		if removal.Held {
			action, colour = string(plan.Hold), colourOf(plan.Hold)
		} else if removal.Queued {
			action, colour = "Queue", text.FgYellow
		}
		t.AppendRow([]any{paint(action, colour), redact.Visible(plan.Moved(removal.Object, removal.MovesTo)), effect, nodes, quote(cmp.Or(removal.Message, why))})
	}
	return t
}

// offlineTable returns a table of what is known without a cluster.
func (r planReport) offlineTable(out io.Writer, paint display.Painter) table.Writer {
	t := display.NewTable(display.Painted(out), "ACTION", "OBJECT")
	for _, c := range r.Changes {
		t.AppendRow([]any{paint(c.Action, colourOf(plan.Action(c.Action))), redact.Visible(c.Object)})
	}
	return t
}

// printFields prints the fields of objects that change in more than one.
func (r planReport) printFields(out io.Writer, paint display.Painter) {
	out = display.Painted(out)
	for _, c := range r.Changes {
		if len(c.Fields) < 2 {
			continue
		}
		fmt.Fprintf(out, "\n%s\n", redact.Visible(c.Object))
		for _, field := range c.Fields[:min(maxFields, len(c.Fields))] {
			red := func(words string) string { return paint(redact.Visible(words), text.FgRed) }
			green := func(words string) string { return paint(redact.Visible(words), text.FgGreen) }
			fmt.Fprintf(out, "  %s: %s\n", redact.Visible(field.Path), fieldWords(field.From, field.To, red, green))
		}
		if more := shortlist.More("  ", len(c.Fields)-maxFields); more != "" {
			fmt.Fprintf(out, "%s (-o json has all)\n", more)
		}
	}
}

// summary returns the number of changes, in one line; empty if something else already describes the result.
func (r planReport) summary() string {
	t := review.TallyOf(r.Plan)
	var words []string
	for _, one := range []struct {
		n    int
		what string
	}{
		{t.Actions[plan.Create], "to create"},
		{t.Actions[plan.Update], "to change"},
		{t.Actions[plan.Adopt] + t.Actions[plan.TakeBack], "to adopt"},
		{t.Moved, "to move"},
		{t.Removed, "to remove"},
		{t.Actions[plan.Hold], "held"},
		{t.Actions[plan.Wait], "waiting"},
		{t.Actions[plan.Drifted], "drifted"},
		{t.Actions[plan.Conflict] + t.Actions[plan.Refuse], "refused"},
	} {
		if one.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	switch {
	case len(words) == 0 && (r.Upgrade != nil || r.Adoption != nil || r.Charts != "" || r.Stopped != ""):
		return ""
	case len(words) == 0:
		return "no change"
	}
	if r.Offline {
		return strings.Join(words, ", ") + "; not compared with a cluster (use --against NODESYNC)"
	}
	upTo := ""
	if t.UpTo {
		upTo = "up to "
	}
	return strings.Join(words, ", ") + fmt.Sprintf("; %s%d %s", upTo, t.Nodes, english.PluralWord(t.Nodes, "node drains or is replaced", "nodes drain or are replaced"))
}

func colourOf(action plan.Action) text.Color {
	switch {
	case action == plan.Create:
		return text.FgGreen
	case action.Writes():
		return text.FgYellow
	case slices.Contains([]plan.Action{plan.Conflict, plan.Refuse}, action):
		return text.FgRed
	case action == plan.Hold:
		return text.FgMagenta
	}
	return text.Reset
}

// nodeLines returns the lines on nodes and pods that follow the table.
func (r planReport) nodeLines() []string {
	var lines []string
	for _, pace := range r.Pace {
		lines = append(lines, pace.Lines...)
	}
	for _, pods := range r.Pods {
		lines = append(lines, pods.Lines()...)
	}
	for _, c := range r.Changes {
		lines = append(lines, c.Notes...)
	}
	return lines
}

// unknown returns the changes whose affected nodes are unknown, and why.
func (r planReport) unknown() []string {
	var found []string
	for _, c := range r.Changes {
		if c.Unavailable != "" {
			found = append(found, fmt.Sprintf("%s: the affected nodes are unknown: %s", c.Object, c.Unavailable))
		}
	}
	return found
}

// nodesOf returns the number of affected nodes.
func nodesOf(c planjson.Change) any {
	if c.UpTo {
		return fmt.Sprintf("up to %d", c.Nodes)
	}
	return c.Nodes
}

// whatOf summarizes a change in one line.
func whatOf(c planjson.Change) string {
	// The message of an Update names its fields without their values.
	if len(c.Fields) == 0 || c.Message != "" && c.Action != string(plan.Update) {
		return c.Message
	}
	first := c.Fields[0]
	plain := func(words string) string { return words }
	return first.Path + ": " + fieldWords(first.From, first.To, plain, plain) + shortlist.More(" ", len(c.Fields)-1)
}

// fieldWords describes how a field changes; for a list, only the removed and the added entries. old and fresh paint each
// part.
func fieldWords(from, to string, old, fresh func(string) string) string {
	was, isList := entriesOf(from)
	wanted, wantsList := entriesOf(to)
	if isList && wantsList {
		without := func(list, other []string) []string {
			return slices.DeleteFunc(slices.Clone(list), func(one string) bool { return slices.Contains(other, one) })
		}
		var words []string
		if removed := without(was, wanted); len(removed) > 0 {
			words = append(words, "removed "+old(strings.Join(removed, ", ")))
		}
		if added := without(wanted, was); len(added) > 0 {
			words = append(words, "added "+fresh(strings.Join(added, ", ")))
		}
		if len(words) > 0 {
			return strings.Join(words, ", ")
		}
	}
	return old(orNothing(from)) + " → " + fresh(orNothing(to))
}

// entriesOf returns the entries of a list in JSON, each unchanged; false for any other value.
func entriesOf(value string) ([]string, bool) {
	var raw []json.RawMessage
	if !strings.HasPrefix(value, "[") || json.Unmarshal([]byte(value), &raw) != nil {
		return nil, false
	}
	entries := make([]string, 0, len(raw))
	for _, one := range raw {
		var word string
		if json.Unmarshal(one, &word) != nil {
			word = string(one)
		}
		entries = append(entries, word)
	}
	return entries, true
}

func orNothing(value string) string {
	if value == "" {
		return "–"
	}
	return value
}

// podsOnNodes returns the pods on the nodes that the Plan affects, read with the user's rights; the daemon reads
// no pods for a plan. What may not be read is a warning.
func podsOnNodes(ctx context.Context, c client.Reader, made *plan.Plan, live plan.Live, now time.Time) (onNodes []review.Pods, warning string) {
	document := made.Document(live)
	touched := review.Touched(document)
	if !touched.Any() {
		return nil, ""
	}
	pods, budgets := &corev1.PodList{}, &policyv1.PodDisruptionBudgetList{}
	err := c.List(ctx, pods)
	if err == nil {
		err = c.List(ctx, budgets)
	}
	if err != nil {
		return nil, "pods on these nodes are unknown: " + explain(err, "list pods and PodDisruptionBudgets").Error() + ": you need permission to list both in all namespaces"
	}
	return touched.Pods(document, pods.Items, budgets.Items, now), ""
}
