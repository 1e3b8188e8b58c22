package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/redact"
)

// statusReport is what `plumbline status` prints.
type statusReport struct {
	summary.Status `json:",inline"`

	all bool // show everything, instead of what fits on a screen
	// at is the time to compute ages with; if zero, now.
	at time.Time
}

func newStatusCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var watches, all bool
	cmd := &cobra.Command{
		Use:   "status NODESYNC...",
		Short: "Show the progress of a NodeSync and what it waits for",
		Long: `Show whether the cluster matches Git, at which commit, how many nodes are
replaced, what the NodeSync waits for and since when, and what happens next; then
the stages, the pools with their nodes, and the removals. -o json contains everything.
With --watch the command keeps running: on a terminal it redraws the screen each second,
in a pipe it prints each change as one line. Kinds that you may not watch are read
every 5s and listed at the bottom.

Exit codes: 0 in sync or in progress; 1 failed, or unknown because the status does
not describe the newest commit or request, or because no daemon leads; 2 drifted; 3 held
by the guard, or a rollout is held; 4 stalled, a rollout fails or is stopped, or
something has been terminating for longer than expected.`,
		Example:           "  plumbline status prod-eu\n  plumbline status prod-eu --watch",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, math.MaxInt),
	}
	output := addOutput(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "show all pools and removals, not only those that fit on a screen")
	cmd.Flags().BoolVarP(&watches, "watch", "w", false, "keep running, and show each change")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		if watches {
			return c.watchStatus(cmd, *output, args, all)
		}
		list, err := c.readNamed(cmd.Context(), args)
		if len(list.Items) == 0 {
			return err
		}
		var reports []statusReport
		ends := []error{err}
		for i := range list.Items {
			report := newStatusReport(cmd.Context(), c, &list.Items[i])
			report.all = all
			reports, ends = append(reports, report), append(ends, report.exit(&list.Items[i]))
		}
		if err := writeStatuses(cmd.OutOrStdout(), *output, reports); err != nil {
			return err
		}
		return mostSevere(ends...)
	}
	return cmd
}

// writeStatuses prints one or several reports: several as a list in formats for programs.
func writeStatuses(out io.Writer, output format, reports []statusReport) error {
	var value any = reports
	if len(reports) == 1 {
		value = reports[0]
	}
	return output.write(out, value, func(out io.Writer) error {
		for i := range reports {
			if i > 0 {
				fmt.Fprintln(out)
			}
			reports[i].print(out)
		}
		return nil
	})
}

// exit returns an exit code for the state of a NodeSync.
func (r statusReport) exit(sync *v1alpha1.NodeSync) error {
	if summary.StateOf(sync) == summary.Unknown || r.Unled != "" {
		return &exitError{code: exitFailed}
	}
	if summary.StateOf(sync) == summary.Stuck {
		return &exitError{code: exitStalled}
	}
	if conditions.IsStalled(sync) || conditions.IsFalse(sync, meta.ReadyCondition) || summary.StateOf(sync).OfNodes() {
		return exitOf(sync)
	}
	return nil
}

// newStatusReport summarizes a NodeSync.
func newStatusReport(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync) statusReport {
	return statusReportOf(ctx, c, sync, leaderMissing(ctx, c, sync.Namespace, time.Now))
}

// statusReportOf is like newStatusReport; unled is why no daemon leads, empty if one does. A user who may read the
// NodeSync but not the pools gets the rest.
func statusReportOf(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync, unled string) statusReport {
	report := statusReport{Status: summary.Of(sync)}
	if report.Unled = unled; report.Unled != "" {
		report.State = string(summary.Unknown)
		report.Next = "nothing until a daemon leads; check its pods and their logs: kubectl get pods -n " + sync.Namespace
	}
	pools, err := poolsOf(ctx, c, sync)
	if err != nil {
		report.Unread = err.Error()
		return report
	}
	report.Pools = pools
	return report
}

// screenful is how many pools and removals fit on one screen together with the rest.
const screenful = 10

// rows returns how many of them to show.
func (r statusReport) rows() int {
	if r.all {
		return math.MaxInt
	}
	return screenful
}

// now returns the time to compute ages with.
func (r statusReport) now() time.Time {
	if r.at.IsZero() {
		return time.Now()
	}
	return r.at
}

// print prints the report as text.
func (r statusReport) print(out io.Writer) {
	if r.Unled != "" {
		fmt.Fprintln(out, followedByOld(r.Unled))
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

// printMessage prints the daemon's message; if a commit contains many mistakes, only the first.
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
	t := display.NewFittedTable(out, "STAGE", "STATE", "MESSAGE")
	for _, s := range r.Stages {
		t.AppendRow([]any{s.Name, s.State, oneLine(s.Message)})
	}
	t.Render()
}

// printPools prints the pools that need attention, and sums up the others.
func (r statusReport) printPools(out io.Writer) {
	if r.Unread != "" {
		fmt.Fprintf(out, "\npools      not shown: %s\n", r.Unread)
	}
	if len(r.Pools) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := display.NewNarrowedTable(out, 0, []int{6, 5, 3}, "POOL", "READY", "NODES", "DRIFTED", "DRAINING", "LIMIT USED", "AGE")
	all := summary.Notable(r.Pools)
	rows := min(r.rows(), len(all))
	for _, p := range all[:rows] {
		t.AppendRow([]any{p.Name, conditionStatus(p.Ready), p.Nodes, p.Drifted, p.Draining, p.LimitUsed, summary.Age(p.Created, r.now())})
	}
	t.Render()
	if len(all) > rows {
		fmt.Fprintf(out, "%s (--all)\n", summary.OtherPools(all[rows:]))
	}
}

func conditionStatus(is bool) metav1.ConditionStatus {
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
	t := display.NewFittedTable(out, "REMOVAL", "PHASE", "LEFT", "AGE", "WAITS FOR")
	rows := min(r.rows(), len(r.Removals))
	for _, removal := range r.Removals[:rows] {
		t.AppendRow([]any{
			plan.Moved(removal.Kind+"/"+removal.Name, removal.MovesTo), summary.PhaseWord(removal), removal.Remaining,
			summary.Age(removal.RecordedAt, r.now()), summary.WaitsFor(removal, r.RemovalGrace, r.now()),
		})
	}
	t.Render()
	if more := shortlist.More("", len(r.Removals)-rows); more != "" {
		fmt.Fprintf(out, "%s (--all)\n", more)
	}
}

// printBreakGlass prints the commands that would terminate nodes despite what blocks them, each with its risk.
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
		fmt.Fprint(out, "\nto force stalled terminations, at your own risk (plumbline never runs these commands):\n")
	}
	for _, g := range all {
		fmt.Fprintf(out, "  %s, %s: %s\n    # risk: %s\n", redact.Visible(g.Node), g.Cause, redact.Visible(g.Command), redact.Visible(g.Risk))
	}
}

// orNone returns a word, or that there is none yet.
func orNone(word string) string { return summary.OrNone(word) }

// short formats a duration without the zeros that Go prints.
func short(d time.Duration) string { return plan.Short(d) }
