package main

import (
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/redact"
)

// formatHTML is a page, in commands that support it.
const formatHTML format = "html"

// fleetWatch is how often --watch fetches.
const fleetWatch = 30 * time.Second

// fleetOptions are the flags of `plumbline fleet`.
type fleetOptions struct {
	repo, branch, remote string
	nodeSyncs            []string
	offline, watch       bool
	now                  func() time.Time
}

func newFleetCommand(now func() time.Time) *cobra.Command {
	o := &fleetOptions{now: now}
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Show which commit each cluster of a fleet has taken, and what newer ones wait for",
		Long: `Read rings.yaml and the records of the clusters from a clone, and print for each cluster of each
ring which commit it has taken, its result, and what the newest commit waits for there; then, for
each of the newest commits, how many clusters of each ring have succeeded on it.

No cluster is queried: any clone will do. The command first fetches the branch and the records
(refs/plumbline) with your own git, unless --offline is given.

The public keys of the clusters are in their NodeSyncs, not in the repository. With --nodesync,
the signatures of the records are verified with the keys of that file, as its cluster does, and
its spec.promotion.minSoak counts. Without it, the output warns that they are not verified.

Exit codes: 0 each cluster has taken the newest commit and succeeded; 1 an error; 2 some have not
taken it yet; 4 a commit has failed on a cluster, or a cluster is silent.`,
		Example: `  plumbline fleet
  plumbline fleet --nodesync nodesyncs/prod-eu.yaml --watch
  plumbline fleet -o html > fleet.html
  plumbline fleet pause prod --reason "incident 42"`,
		Args: cobra.NoArgs,
	}
	output := addOutput(cmd, formatMarkdown, formatHTML)
	o.addFlags(cmd)
	cmd.Flags().StringArrayVar(&o.nodeSyncs, "nodesync", nil, "file with a NodeSync, whose keys verify the records; repeatable")
	cmd.Flags().BoolVar(&o.offline, "offline", false, "fetch nothing: show what the clone has")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "fetch every 30 seconds, and print what has changed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.watch {
			return o.follow(cmd.Context(), cmd.OutOrStdout(), *output)
		}
		found, err := o.read(cmd.Context())
		if err != nil {
			return err
		}
		if err := found.write(cmd.OutOrStdout(), *output); err != nil {
			return err
		}
		return found.exit()
	}
	cmd.AddCommand(newFleetPauseCommand("pause"), newFleetPauseCommand("resume"))
	return cmd
}

func (o *fleetOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.repo, "repo", ".", "folder of the clone")
	cmd.Flags().StringVar(&o.branch, "branch", "", "branch that the clusters follow; default: the one that is checked out")
	cmd.Flags().StringVar(&o.remote, "remote", "", "remote to fetch from; default: that of the branch, or origin")
	for _, flag := range []string{"branch", "remote"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions) // the flag exists
	}
	_ = cmd.MarkFlagDirname("repo")
}

// fleetReport is the output of `plumbline fleet`.
type fleetReport struct {
	Branch string `json:"branch"`
	// Verified reports that the signatures of the records were verified.
	Verified bool      `json:"verified"`
	At       time.Time `json:"at"`
	promotion.Fleet
	// Subjects are the first lines of the commits' messages, by their hashes.
	Subjects map[string]string `json:"subjects,omitempty"`
}

// follow prints the report again whenever it changes.
func (o *fleetOptions) follow(ctx context.Context, out io.Writer, as format) error {
	last := ""
	for {
		found, err := o.read(ctx)
		if err != nil {
			return err
		}
		same := *found
		same.At = time.Time{}
		if now := fmt.Sprintf("%+v", same.lines()); now != last {
			last = now
			if err := found.write(out, as); err != nil {
				return err
			}
		}
		if err := pause.For(ctx, fleetWatch); err != nil {
			return err
		}
	}
}

// write prints the report in a format.
func (r *fleetReport) write(out io.Writer, as format) error {
	switch as {
	case formatMarkdown:
		return r.writeMarkdown(&display.Visible{Writer: out})
	case formatHTML:
		return r.writeHTML(out)
	default:
	}
	return as.write(out, r, func(out io.Writer) error { r.print(out); return nil })
}

// exit returns the exit code: a failure or a silent cluster before a commit that waits.
func (r *fleetReport) exit() error {
	code := exitDone
	for _, ring := range r.Rings {
		for _, c := range ring.Clusters {
			switch {
			case c.Silent, c.State == promotion.Failed:
				code = exitStalled
			case code == exitDone && (c.Commit != r.Tip || c.State != promotion.Succeeded):
				code = exitChanges
			}
		}
	}
	if code == exitDone {
		return nil
	}
	return &exitError{code: code}
}

// fleetLine is one cluster, as text.
type fleetLine struct {
	Ring, Cluster, Commit, State, Since, Waits string
}

// lines returns the clusters as text.
func (r *fleetReport) lines() []fleetLine {
	var all []fleetLine
	for _, ring := range r.Rings {
		for _, c := range ring.Clusters {
			line := fleetLine{Ring: ring.Name, Cluster: c.Cluster, Commit: "-", State: "never reported", Since: "-", Waits: waitWords(c)}
			if c.NodeSync != c.Cluster {
				line.Cluster += "/" + c.NodeSync
			}
			if c.Commit != "" {
				line.Commit, line.State = report.ShortCommit(c.Commit), stateWords(c)
			}
			if c.Silent && c.ReportedAt != nil {
				line.State = "silent since " + stampOf(c.ReportedAt)
			}
			if c.Since != nil {
				line.Since = stampOf(c.Since)
			}
			if ring.Paused != "" {
				line.Ring += " (paused: " + ring.Paused + ")"
			}
			all = append(all, line)
		}
	}
	return all
}

func stampOf(at *time.Time) string { return summary.Stamp(metav1.NewTime(*at)) }

// stateWords describes the result of a commit on a cluster.
func stateWords(c promotion.FleetCluster) string {
	switch c.State {
	case promotion.Succeeded:
		return "succeeded"
	case promotion.Failed:
		return "failed: " + c.Reason
	case promotion.InProgress:
		if c.Effect.Nodes > 0 {
			return fmt.Sprintf("rolling out (%d of %d nodes)", c.Effect.Nodes, c.Effect.Of)
		}
		return "rolling out"
	}
	return string(c.State)
}

// waitWords describes what the newest commit waits for on a cluster.
func waitWords(c promotion.FleetCluster) string {
	words := ""
	if c.Waits != nil {
		words = c.Waits.Message
	}
	if c.Silent && c.Reason != "" {
		words = strings.TrimPrefix(words+"; "+c.Reason, "; ")
	}
	if words == "" {
		return "-"
	}
	return words
}

// title describes the newest commit.
func (r *fleetReport) title() string {
	return fmt.Sprintf("%s of branch %s", r.named(r.Tip), r.Branch)
}

// named returns a commit with its subject.
func (r *fleetReport) named(commit string) string {
	return strings.TrimSpace(report.ShortCommit(commit) + " " + r.Subjects[commit])
}

// expected describes when the newest commit reaches each ring; empty if that is unknown for all that have not succeeded.
func (r *fleetReport) expected() string {
	var rings []string
	earliest, known := "", false
	for _, ring := range r.Rings {
		switch {
		case ring.Done != nil:
			rings = append(rings, ring.Name+" succeeded "+stampOf(ring.Done))
		case ring.Expected != nil:
			known = true
			if rings = append(rings, ring.Name+" "+stampOf(ring.Expected)); !ring.Measured {
				earliest = " at the earliest"
			}
		}
	}
	if !known {
		return ""
	}
	return "if nothing stops it, the newest commit has succeeded" + earliest + ": " + strings.Join(rings, " → ")
}

// notes are what a reader must know about the report.
func (r *fleetReport) notes() []string {
	var notes []string
	if expected := r.expected(); expected != "" {
		notes = append(notes, expected)
	}
	if r.Invalid != "" {
		notes = append(notes, "rings.yaml of the newest commit is not valid, and no cluster takes that commit: "+r.Invalid)
	}
	if !r.Verified {
		notes = append(notes, "signatures of records are not verified: give a NodeSync with --nodesync")
	}
	return notes
}

// fleetCountWords describes how far a commit has come in a ring.
func fleetCountWords(n promotion.FleetCount) string {
	words := fmt.Sprintf("%d/%d", n.Succeeded+n.Contained, n.Clusters)
	if n.InProgress > 0 {
		words += fmt.Sprintf(", %d rolling out", n.InProgress)
	}
	if n.Failed > 0 {
		words += fmt.Sprintf(", %d failed", n.Failed)
	}
	return words
}

// print prints tables.
func (r *fleetReport) print(out io.Writer) {
	fmt.Fprintf(out, "newest commit: %s\n", r.title())
	for _, note := range r.notes() {
		fmt.Fprintln(out, note)
	}
	fmt.Fprintln(out)
	clusters := display.NewTable(out, "RING", "CLUSTER", "COMMIT", "STATE", "SINCE", "THE NEWEST COMMIT")
	for _, l := range r.lines() {
		clusters.AppendRow([]any{l.Ring, l.Cluster, l.Commit, l.State, l.Since, l.Waits})
	}
	clusters.Render()
	fmt.Fprintln(out)
	header := []any{"COMMIT"}
	for _, ring := range r.Rings {
		header = append(header, strings.ToUpper(ring.Name))
	}
	commits := display.NewTable(out, header...)
	for _, c := range r.Commits {
		row := []any{r.named(c.Commit)}
		for _, n := range c.Rings {
			row = append(row, fleetCountWords(n))
		}
		commits.AppendRow(row)
	}
	commits.Render()
}

// writeMarkdown prints tables in Markdown.
func (r *fleetReport) writeMarkdown(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "**Newest commit:** %s\n\n", report.Code(r.title()))
	for _, note := range r.notes() {
		fmt.Fprintf(&b, "%s\n\n", cell(note))
	}
	b.WriteString("| ring | cluster | commit | state | since | the newest commit |\n|---|---|---|---|---|---|\n")
	for _, l := range r.lines() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", cell(l.Ring), cell(l.Cluster), cell(l.Commit), cell(l.State), cell(l.Since), cell(l.Waits))
	}
	b.WriteString("\n| commit |")
	for _, ring := range r.Rings {
		fmt.Fprintf(&b, " %s |", cell(ring.Name))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(r.Rings)) + "\n")
	for _, c := range r.Commits {
		fmt.Fprintf(&b, "| %s |", cell(r.named(c.Commit)))
		for _, n := range c.Rings {
			fmt.Fprintf(&b, " %s |", fleetCountWords(n))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// cell escapes text for a cell of a table in Markdown.
func cell(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`).Replace(oneLine(redact.Visible(text)))
}

//go:embed fleet.html
var fleetPage string

// writeHTML prints a page that needs no other file.
func (r *fleetReport) writeHTML(out io.Writer) error {
	page, err := template.New("fleet").Funcs(template.FuncMap{"count": fleetCountWords, "named": r.named}).Parse(fleetPage)
	if err != nil {
		return err
	}
	return page.Execute(out, map[string]any{
		"Title": redact.Visible(r.title()), "Notes": r.notes(), "Lines": r.lines(), "Report": r, "At": stampOf(&r.At),
	})
}
