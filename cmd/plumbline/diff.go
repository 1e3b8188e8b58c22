package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/review"
)

func newDiffCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	o := &planOptions{}
	cmd := &cobra.Command{
		Use:   "diff PATH|NODESYNC",
		Short: "Show the objects that a folder or a NodeSync would change, as a diff",
		Long: `Show each definition (NodePool, EC2NodeClass, NodeOverlay or CapacityBuffer) that would change
as a unified diff, and change nothing. It makes the same comparison as ` + "`plumbline plan`" + ` compares: a PATH with nothing,
with --against NODESYNC with that NodeSync's cluster; the name of a NodeSync has
what its source has now compared with its cluster. Values that are equal and only
written in another way (100 and 100000m) are no difference.

The diff is on stdout. On stderr is what it does not show: why something is held
or refused, and warnings. What it does to nodes, and to Karpenter itself, is
what ` + "`plumbline plan`" + ` says.

Exit codes: 0 no difference, 1 error, 2 differences, 3 held by the guard.`,
		Example: "  plumbline diff ./clusters/prod-eu --against prod-eu\n  plumbline diff prod-eu --exit-code=false",
		Args:    cobra.ExactArgs(1),
	}
	o.addFlags(cmd, kubeconfig)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		made, err := o.make(cmd.Context(), kubeconfig, args[0])
		if err != nil {
			return err
		}
		report := newPlanReport(made)
		if err := made.printDiff(report, cmd.OutOrStdout(), &display.Visible{Writer: cmd.ErrOrStderr()}); err != nil {
			return err
		}
		return o.exit(report)
	}
	return cmd
}

// printDiff prints the objects that differ; to aside, it prints the parts of the report that a diff cannot show.
func (p *planned) printDiff(report planReport, out, aside io.Writer) error {
	report.printRefusals(aside)
	paint := display.Paint(out)
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Action == plan.Hold || c.Action == plan.Conflict || c.Action == plan.Refuse || c.Action == plan.Wait {
			fmt.Fprintf(aside, "%s: %s: %s\n", strings.ToLower(string(c.Action)), c.Ref, oneLine(c.Message))
		}
		if err := printObjectDiff(out, paint, c.Ref.String(), p.Revision, c.Live, c.After()); err != nil {
			return err
		}
	}
	for i := range p.Removals {
		r := &p.Removals[i]
		if r.Held {
			fmt.Fprintf(aside, "hold: %s: %s\n", r.Ref, oneLine(r.Message))
		} else if r.Queued {
			fmt.Fprintf(aside, "%s: %s\n", r.Ref, oneLine(r.Message))
		}
		if live := p.live.Objects[r.Ref]; live != nil {
			if err := printObjectDiff(out, paint, r.Ref.String(), p.Revision, live.Unstructured, nil); err != nil {
				return err
			}
		}
	}
	for _, warning := range report.Warnings {
		fmt.Fprintln(aside, "warning: "+oneLine(warning))
	}
	return nil
}

// printObjectDiff prints the difference between the live object and the one after the change; nil is absent.
func printObjectDiff(out io.Writer, paint display.Painter, name, revision string, live, after *unstructured.Unstructured) error {
	for line := range strings.Lines(review.Diff(name, revision, live, after)) {
		if _, err := fmt.Fprintln(out, paint(strings.TrimSuffix(line, "\n"), colourOfLine(line))); err != nil {
			return err
		}
	}
	return nil
}

// colourOfLine returns the colour that git diff uses.
func colourOfLine(line string) text.Color {
	switch {
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		return text.Bold
	case strings.HasPrefix(line, "-"):
		return text.FgRed
	case strings.HasPrefix(line, "+"):
		return text.FgGreen
	case strings.HasPrefix(line, "@@"):
		return text.FgCyan
	}
	return text.Reset
}
