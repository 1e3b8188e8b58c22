package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// statusReport is what `plumbline status` prints.
type statusReport struct {
	summary.Status `json:",inline"`

	all bool // everything is shown, and not only what fits on a screen
	// at is when it is printed, for ages; zero: now.
	at time.Time
}

func newStatusCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var watches, all bool
	cmd := &cobra.Command{
		Use:   "status NODESYNC...",
		Short: "Show on one screen how far a NodeSync has come and what it waits for",
		Long: `Show whether the cluster matches Git, at which commit, how many nodes are
replaced, what the NodeSync waits for and since when, and what happens next; then
the stages, the pools with their nodes and the removals. -o json has all of it.
With --watch the command stays: on a terminal the screen is drawn each second from
watches, in a pipe each change is one line. A kind that you may not watch is read
every 5s, and named below.

Exit codes: 0 in sync or in progress, 1 failed, or unknown because the status does
not describe the newest commit or request, or no daemon leads, 2 drifted, 3 held by
the guard, or a rollout is held, 4 stalled, a rollout fails or is stopped, or
something has been terminating for longer than expected.`,
		Example:           "  plumbline status prod-eu\n  plumbline status prod-eu --watch",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, math.MaxInt),
	}
	output := addOutput(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "show all pools and removals, and not only what fits on a screen")
	cmd.Flags().BoolVarP(&watches, "watch", "w", false, "stay, and show each change")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		if watches {
			return c.watchStatus(cmd, *output, args, all)
		}
		list, err := c.named(cmd.Context(), args)
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
		return gravest(ends...)
	}
	return cmd
}

// writeStatuses prints a report, or several: as a list where programs read them.
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

// exit says by the exit code how a NodeSync is.
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
	return statusReportOf(ctx, c, sync, unled(ctx, c, sync.Namespace, time.Now))
}

// statusReportOf is likewise; unled says why no daemon leads, and is empty if one does. A user who may read the
// NodeSync and not the pools gets the rest.
func statusReportOf(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync, unled string) statusReport {
	report := statusReport{Status: summary.Of(sync)}
	if report.Unled = unled; report.Unled != "" {
		report.State = string(summary.Unknown)
		report.Next = "nothing, until a daemon leads: see whether it runs, and what it logs: kubectl get pods -n " + sync.Namespace
	}
	pools, err := poolsOf(ctx, c, sync)
	if err != nil {
		report.Unread = err.Error()
		return report
	}
	report.Pools = pools
	return report
}
