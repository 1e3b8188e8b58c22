package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/redact"
)

// mostFields is how many fields of one object are listed.
const mostFields = 20

// print shows the Plan to people.
func (r planReport) print(out io.Writer) error {
	r.printRefusals(out)
	r.printCharts(out)
	paint := paintOn(out)
	before := ""
	if t := r.table(out, paint, oneLine); t.Length() > 0 {
		t.Render()
		before = "\n"
	}
	r.printFields(out, paint)
	for i, line := range r.beside() {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, redact.Visible(line))
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

// printMarkdown shows the Plan in a comment on a pull request.
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
	if t := r.table(out, plain, code); t.Length() > 0 {
		t.RenderMarkdown()
		if len(r.beside())+len(r.unknown())+len(r.Warnings) > 0 {
			fmt.Fprintln(out)
		}
	}
	for _, line := range r.beside() {
		fmt.Fprintf(out, "- %s\n", code(line))
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

// code is text of a commit in a comment, on one line.
func code(words string) string { return report.Code(oneLine(words)) }

// printCharts says what becomes of Karpenter's charts.
func (r planReport) printCharts(out io.Writer) {
	if r.Adoption != nil {
		r.Adoption.printPlanned(out)
	}
	if r.Charts != "" {
		fmt.Fprintln(out, redact.Visible(r.Charts))
	}
	if r.Upgrade != nil {
		r.Upgrade.print(out)
	}
}

// table has a row for each change and each removal.
func (r planReport) table(out io.Writer, paint painter, quote func(string) string) table.Writer {
	if r.Offline {
		return r.offlineTable(out, paint)
	}
	t := newFittedTable(painted(out), "ACTION", "OBJECT", "EFFECT", "NODES", "WHAT")
	targets := r.targets()
	for _, c := range r.Changes {
		if targets[c.Object] && c.Action == string(plan.Create) {
			continue // the row of the move names it
		}
		t.AppendRow([]any{paint(c.Action, colourOf(plan.Action(c.Action))), redact.Visible(c.Object), c.Effect, nodesOf(c), quote(whatOf(c))})
	}
	for _, removal := range r.Removals {
		action, colour, why := "Remove", text.FgRed, "it left Git"
		if len(removal.MovesTo) > 0 {
			action, colour, why = "Move", text.FgYellow, "it left Git, and "+strings.Join(removal.MovesTo, ", ")+english.PluralWord(len(removal.MovesTo), " takes", " take")+" its place"
		}
		effect, nodes := plan.EffectDrain, removal.Nodes
		if removal.Orphan {
			action, colour, why, effect, nodes = "Orphan", text.FgYellow, "it left Git, and stays without a NodeSync", plan.EffectNone, removal.Leaves
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

// targets are the objects to which others move.
func (r planReport) targets() map[string]bool {
	found := map[string]bool{}
	for _, removal := range r.Removals {
		for _, name := range removal.MovesTo {
			found[removal.Kind+"/"+name] = found[removal.Kind+"/"+name] || !removal.Held
		}
	}
	return found
}

// offlineTable has what is known without a cluster.
func (r planReport) offlineTable(out io.Writer, paint painter) table.Writer {
	t := newTable(painted(out), "ACTION", "OBJECT")
	for _, c := range r.Changes {
		t.AppendRow([]any{paint(c.Action, colourOf(plan.Action(c.Action))), redact.Visible(c.Object)})
	}
	return t
}

// printFields lists the fields of what changes in more than one.
func (r planReport) printFields(out io.Writer, paint painter) {
	out = painted(out)
	for _, c := range r.Changes {
		if len(c.Fields) < 2 {
			continue
		}
		fmt.Fprintf(out, "\n%s\n", redact.Visible(c.Object))
		for _, field := range c.Fields[:min(mostFields, len(c.Fields))] {
			from, to := redact.Visible(orNothing(field.From)), redact.Visible(orNothing(field.To))
			fmt.Fprintf(out, "  %s: %s → %s\n", redact.Visible(field.Path), paint(from, text.FgRed), paint(to, text.FgGreen))
		}
		if more := len(c.Fields) - mostFields; more > 0 {
			fmt.Fprintf(out, "  and %d more (-o json has all)\n", more)
		}
	}
}

// tally is how many objects a Plan does what to, and on how many nodes.
type tally struct {
	actions map[plan.Action]int
	removed int
	moved   int
	nodes   int
	// most says that nodes is the most that it can be.
	most bool
}

func (r planReport) tally() tally {
	t := tally{actions: map[plan.Action]int{}}
	targets := r.targets()
	for _, c := range r.Changes {
		if !targets[c.Object] || c.Action != string(plan.Create) {
			t.actions[plan.Action(c.Action)]++
		}
		if c.Action != string(plan.Hold) && plan.Effect(c.Effect).Disrupts() {
			t.nodes, t.most = t.nodes+c.Nodes, t.most || c.UpTo
		}
	}
	for _, removal := range r.Removals {
		if removal.Held {
			t.actions[plan.Hold]++
			continue
		}
		if t.nodes += removal.Nodes; len(removal.MovesTo) > 0 {
			t.moved++
		} else {
			t.removed++
		}
	}
	return t
}

// summary counts what is done, in one line; empty where something else has said what becomes of the
// commit.
func (r planReport) summary() string {
	t := r.tally()
	var words []string
	for _, one := range []struct {
		n    int
		what string
	}{
		{t.actions[plan.Create], "to create"},
		{t.actions[plan.Update], "to change"},
		{t.actions[plan.Adopt] + t.actions[plan.TakeBack], "to adopt"},
		{t.moved, "to move"},
		{t.removed, "to remove"},
		{t.actions[plan.Hold], "held"},
		{t.actions[plan.Wait], "waiting"},
		{t.actions[plan.Drifted], "drifted"},
		{t.actions[plan.Conflict] + t.actions[plan.Refuse], "refused"},
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
		return strings.Join(words, ", ") + "; compared with nothing, --against NODESYNC compares with a cluster"
	}
	upTo := ""
	if t.most {
		upTo = "up to "
	}
	return strings.Join(words, ", ") + fmt.Sprintf("; %s%d %s", upTo, t.nodes, english.PluralWord(t.nodes, "node drains or is replaced", "nodes drain or are replaced"))
}

// painter colours a word on a terminal.
type painter func(word string, colour text.Color) string

func plain(word string, _ text.Color) string { return word }

// paintOn colours words where they go to a terminal that takes colours (https://no-color.org).
func paintOn(out io.Writer) painter {
	if widthOf(out) == 0 || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return plain
	}
	return func(word string, colour text.Color) string {
		if colour == text.Reset {
			return word
		}
		return text.Colors{colour}.Sprint(word)
	}
}

// painted is where coloured words go: what else is written to it was made visible before.
func painted(out io.Writer) io.Writer {
	if visible, ok := out.(*visibleWriter); ok {
		return visible.Writer
	}
	return out
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
