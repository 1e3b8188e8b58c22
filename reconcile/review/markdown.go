package review

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/redact"
)

const (
	// maxComment is how long a comment is at most, in bytes: GitHub takes 65,536 characters.
	maxComment = 60_000
	// maxDiff is how much of that a diff may take, and mostRows how long a table is.
	maxDiff, mostRows = 40_000, 50
	// maxCode is how much is shown of one text of a commit.
	maxCode = 300
)

// Code is text of a commit in Markdown, where it is neither a link nor a mention.
func Code(words string) string {
	if words == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(redact.Visible(strings.Join(strings.Fields(words), " ")), "`", "'") + "`"
}

// code is the same, cut where it is long.
func code(words string) string {
	if len(words) > maxCode {
		words = strings.ToValidUTF8(words[:maxCode], "") + "…"
	}
	return Code(words)
}

// cell is the same in a table, whose cells end at a line otherwise.
func cell(words string) string { return strings.ReplaceAll(code(words), "|", `\|`) }

// Fence puts a text between fences that it cannot end.
func Fence(kind, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + kind + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence + "\n"
}

// Title says what a comment is of.
type Title struct {
	// NodeSync and Cluster are whose plan it is, and Commit what of.
	NodeSync, Cluster, Commit string
}

// Markdown is the comment.
func (r Review) Markdown(t Title) string {
	var out strings.Builder
	fmt.Fprintf(&out, "**plumbline plan** of %s for NodeSync %s in cluster %s\n\n%s\n\n", code(t.Commit), code(t.NodeSync), code(t.Cluster), code(r.Line))
	if r.of.Behind != "" {
		fmt.Fprintf(&out, "The commit lacks some that are in force from %s: the plan undoes them. Update the branch to see what a merge does.\n\n", code(r.of.Behind))
	}
	r.writePools(&out)
	for i, check := range r.checks {
		if i == mostRows {
			fmt.Fprintf(&out, "- and %d more\n", len(r.checks)-i)
			break
		}
		fmt.Fprintf(&out, "- %s\n", code(check))
	}
	for i, warning := range r.warnings() {
		if i == mostRows {
			break
		}
		fmt.Fprintf(&out, "- warning: %s\n", code(warning))
	}
	r.writeDiff(&out)
	return bounded(out.String())
}

// writePools writes a row for each pool whose nodes are touched.
func (r Review) writePools(out *strings.Builder) {
	if len(r.pools) == 0 {
		return
	}
	out.WriteString("| pool | nodes | effect | reason | lower bound of the time |\n|---|---|---|---|---|\n")
	for i, p := range r.pools {
		if i == mostRows {
			fmt.Fprintf(out, "| and %d more | | | | |\n", len(r.pools)-i)
			break
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", cell(p.Name), p.Nodes, p.Effect, cell(p.Reason), cell(p.AtLeast))
	}
	out.WriteString("\nA round is as long as a launch and a drain.\n\n")
}

// warnings are those of the Plan, and what could not be found out.
func (r Review) warnings() []string {
	found := append([]string(nil), r.of.Plan.Warnings...)
	for i := range r.of.Plan.Changes {
		found = append(found, r.of.Plan.Changes[i].Warnings...)
	}
	for _, warning := range r.of.Warnings {
		found = append(found, r.of.Hide.Hide(warning))
	}
	return found
}

// writeDiff writes the objects that differ, folded.
func (r Review) writeDiff(out *strings.Builder) {
	var diff strings.Builder
	objects := 0
	write := func(text string) {
		if text != "" {
			objects++
			diff.WriteString(text)
		}
	}
	for i := range r.of.Plan.Changes {
		c := &r.of.Plan.Changes[i]
		if c.Action.Writes() || c.Action == plan.Hold {
			write(Diff(c.Ref.String(), "", c.Live, c.After()))
		}
	}
	for i := range r.of.Plan.Removals {
		if live := r.of.Live.Objects[r.of.Plan.Removals[i].Ref]; live != nil {
			write(Diff(r.of.Plan.Removals[i].Ref.String(), "", live.Unstructured, nil))
		}
	}
	if objects == 0 {
		return
	}
	text := diff.String()
	if len(text) > maxDiff {
		text = strings.ToValidUTF8(text[:maxDiff], "")
		text = text[:strings.LastIndexByte(text, '\n')+1] + "… and more: plumbline diff\n"
	}
	fmt.Fprintf(out, "\n<details><summary>Objects that differ: %d</summary>\n\n%s\n</details>\n", objects, Fence("diff", text))
}

// bounded is a comment that every host takes.
func bounded(text string) string {
	if len(text) <= maxComment {
		return text
	}
	cut := text[:maxComment]
	for !utf8.ValidString(cut) {
		cut = cut[:len(cut)-1]
	}
	return cut[:strings.LastIndexByte(cut, '\n')+1] + "\n… and more: `plumbline plan`\n"
}
