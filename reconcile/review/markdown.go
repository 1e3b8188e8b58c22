package review

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/internal/shell"
	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// maxRows limits the rows of a table.
	maxRows = 50
	// maxCode limits the shown bytes of one text from a commit.
	maxCode = 300
)

// maxDiff returns how much of a comment a diff may take, in bytes: more if it can be folded.
func maxDiff(m report.Markup) int {
	if m.HTML {
		return m.Most * 2 / 3
	}
	return m.Most / 3
}

// code formats text from a commit, truncated if it is long.
func code(words string) string {
	if len(words) > maxCode {
		words = strings.ToValidUTF8(words[:maxCode], "") + "…"
	}
	return report.Code(words)
}

// cell is like code, for a cell of a table.
func cell(words string) string { return strings.ReplaceAll(code(words), "|", `\|`) }

// Fence puts a text into a code block that the text cannot close.
func Fence(kind, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + kind + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence + "\n"
}

// Title identifies the plan that a comment is about.
type Title struct {
	// NodeSync and Cluster are those of the plan, and Commit is the planned commit. The NodeSync is in Namespace, and
	// reads the folder Path.
	NodeSync, Namespace, Path, Cluster, Commit string
}

// Markdown returns the comment, within the limits of the host.
func (r Review) Markdown(t Title, m report.Markup) string {
	var out strings.Builder
	fmt.Fprintf(&out, "**plumbline plan** of %s for NodeSync %s in cluster %s\n\n%s\n\n",
		code(t.Commit), code(t.NodeSync), code(t.Cluster), code(r.Line))
	switch {
	case r.of.Lacks != "":
		fmt.Fprintf(&out, "The commit lacks %s of %s, which is not in force yet: a merge has both come into force, and the plan is of this commit only. Update the branch to see what a merge does.\n\n", code(r.of.Lacks), code(r.of.Branch))
	case r.of.Behind:
		fmt.Fprintf(&out,
			"The commit lacks some that are in force from %s: the plan undoes them. Update the branch to see what a merge does.\n\n",
			code(r.of.Branch))
	}
	if r.of.Way != "" {
		fmt.Fprintf(&out, "%s\n\n", code(r.of.Way))
	}
	r.writePools(&out)
	r.writeWhatIf(&out, t)
	for i, check := range r.checks {
		if i == maxRows {
			fmt.Fprintln(&out, shortlist.More("- ", len(r.checks)-i))
			break
		}
		fmt.Fprintf(&out, "- %s\n", code(check))
	}
	r.writeApproval(&out)
	for i, note := range r.notes() {
		if i == maxRows {
			break
		}
		fmt.Fprintf(&out, "- %s\n", code(note))
	}
	for i, warning := range r.warnings() {
		if i == maxRows {
			break
		}
		fmt.Fprintf(&out, "- warning: %s\n", code(warning))
	}
	r.writeDiff(&out, m)
	return bounded(out.String(), m.Most)
}

// writeApproval writes the line with which the commit would approve what it is held for, if that is allowed.
func (r Review) writeApproval(out *strings.Builder) {
	if a := r.of.Plan.Approvable; a != nil && r.of.ApprovesInGit && !r.of.ApprovedInGit {
		fmt.Fprintf(out, "\nTo approve just that (%s), add the digest to the list `approve` in %s:\n\n%s\n",
			a.Summary(), render.FileName, Fence("yaml", "approve:\n  - "+render.ShownDigest(a.Digest)))
	}
}

// writePools writes a row for each pool whose nodes are affected.
func (r Review) writePools(out *strings.Builder) {
	if len(r.pools) == 0 {
		return
	}
	out.WriteString("| pool | nodes | effect | reason | lower bound of the time |\n|---|---|---|---|---|\n")
	for i, p := range r.pools {
		if i == maxRows {
			fmt.Fprintln(out, shortlist.More("| ", len(r.pools)-i)+" | | | | |")
			break
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", cell(p.Name), p.Nodes, p.Effect, cell(p.Reason), cell(p.AtLeast))
	}
	out.WriteString("\nA round is as long as a launch and a drain.\n\n")
}

// writeWhatIf writes the command that simulates where the pods of affected nodes would go: the daemon has too little
// memory for that simulation.
func (r Review) writeWhatIf(out *strings.Builder, t Title) {
	if len(r.pools) == 0 {
		return
	}
	command := fmt.Sprintf("plumbline plan %s --against %s -n %s --what-if --aws", folderOf(t.Path), t.NodeSync, t.Namespace)
	fmt.Fprintf(out, "Where the pods on these nodes would go, and what new nodes would cost, in a checkout of %s: %s\n\n",
		code(t.Commit), report.Code(command))
}

// folderOf returns the folder of a NodeSync for a shell in the repository's root.
func folderOf(of string) string {
	folder := "./" + strings.TrimPrefix(path.Clean("/"+of), "/")
	return shell.Word(folder)
}

// notes returns what the Changes do besides nodes, and Changes whose affected nodes are unknown, as printed by
// plumbline plan.
func (r Review) notes() []string {
	var found []string
	if r.of.AutoMode != "" {
		found = append(found, r.of.AutoMode)
	}
	for _, line := range r.of.Rights.Lines() {
		found = append(found, r.of.Hide.Hide(line))
	}
	for i := range r.of.Plan.Changes {
		c := &r.of.Plan.Changes[i]
		found = append(found, c.Notes...)
		if c.Unavailable != "" && c.Action != plan.Hold {
			found = append(found, fmt.Sprintf("%s: the affected nodes are unknown: %s", c.Ref, r.of.Hide.Hide(c.Unavailable)))
		}
	}
	return found
}

// warnings returns those of the Plan, and those about what could not be determined.
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

// writeDiff writes the differing objects, folded if a comment can do that.
func (r Review) writeDiff(out *strings.Builder, m report.Markup) {
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
		if c.Action.Writes() || c.Action == plan.Hold || c.Action == plan.Wait {
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
	if most := maxDiff(m); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
		text = text[:strings.LastIndexByte(text, '\n')+1] + "… and more: plumbline diff\n"
	}
	if !m.HTML {
		fmt.Fprintf(out, "\nObjects that differ: %d\n\n%s", objects, Fence("diff", text))
		return
	}
	fmt.Fprintf(out, "\n<details><summary>Objects that differ: %d</summary>\n\n%s\n</details>\n", objects, Fence("diff", text))
}

// bounded truncates a comment to the host's limit.
func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := text[:most]
	for !utf8.ValidString(cut) {
		cut = cut[:len(cut)-1]
	}
	return cut[:strings.LastIndexByte(cut, '\n')+1] + "\n… and more: `plumbline plan`\n"
}

// Diff returns the unified diff of an object's current and new state; nil means that it does not exist.
func Diff(name, revision string, live, after *unstructured.Unstructured) string {
	from, to := "cluster/"+name, "git/"+name
	if live == nil {
		from = "/dev/null"
	}
	if after == nil {
		to = "/dev/null"
	}
	if revision != "" {
		to += "\t" + revision
	}
	var out strings.Builder
	for line := range strings.Lines(udiff.Unified(from, to, shown(live), shown(after))) {
		out.WriteString(redact.Visible(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return out.String()
}

// shown returns an object as YAML, without what the API server adds; empty if nil.
func shown(object *unstructured.Unstructured) string {
	if object == nil {
		return ""
	}
	object = object.DeepCopy()
	metadata, _, _ := unstructured.NestedMap(object.Object, "metadata")
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
		delete(metadata, field)
	}
	fields := map[string]any{"metadata": metadata}
	for name, value := range object.Object {
		if !slices.Contains([]string{"metadata", "status"}, name) {
			fields[name] = value
		}
	}
	raw, err := json.Marshal(fields)
	if err == nil {
		// YAML parsers accept control characters only as escapes.
		raw, err = yaml.JSONToYAML([]byte(redact.VisibleFlow(string(raw))))
	}
	if err != nil { // it was made from JSON
		return "# " + err.Error() + "\n"
	}
	return string(raw)
}
