package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/redact"
)

// defaultQuiet is how long nodes are to stay by default.
const defaultQuiet = 7 * 24 * time.Hour

// willNotDriftReport is what could replace nodes in a period.
type willNotDriftReport struct {
	From   time.Time    `json:"from"`
	Until  time.Time    `json:"until"`
	Movers []plan.Mover `json:"movers"`
	// Spot is how many nodes are Spot instances, which AWS may reclaim at any time.
	Spot int `json:"spotNodes,omitempty"`
}

// addWillNotDrift adds --will-not-drift and --until to a command, which then reports what could replace nodes instead of
// what it reports otherwise.
func addWillNotDrift(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, output *format) {
	on := cmd.Flags().Bool("will-not-drift", false,
		"instead, report what is known to replace nodes before --until; exit code 0 only if nothing is")
	until := cmd.Flags().String("until", "",
		"with --will-not-drift: a date (the end of that day, UTC), a time (RFC 3339), or a duration such as 72h; default: 168h")
	otherwise := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !*on && *until != "":
			return fmt.Errorf("--until %s: needs --will-not-drift", *until)
		case !*on:
			return otherwise(cmd, args)
		}
		now := time.Now().UTC().Truncate(time.Second)
		end, err := endOf(*until, now)
		if err != nil {
			return err
		}
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		report, err := willNotDrift(cmd.Context(), c, now, end)
		if err != nil {
			return err
		}
		err = output.write(cmd.OutOrStdout(), report, func(out io.Writer) error {
			printWillNotDrift(out, report)
			return nil
		})
		if err == nil && len(report.Movers) > 0 {
			return &exitError{code: exitChanges}
		}
		return err
	}
}

// endOf returns the end of the period that a text describes.
func endOf(text string, now time.Time) (time.Time, error) {
	end := now.Add(defaultQuiet)
	if text != "" {
		if date, err := time.Parse(time.DateOnly, text); err == nil {
			end = date.AddDate(0, 0, 1)
		} else if at, err := time.Parse(time.RFC3339, text); err == nil {
			end = at.UTC()
		} else if lasts, err := time.ParseDuration(text); err == nil {
			end = now.Add(lasts)
		} else {
			return time.Time{}, fmt.Errorf(
				"--until %q: want a date such as 2026-12-27, a time such as 2026-12-27T08:00:00Z, or a duration such as 72h", text)
		}
	}
	if !end.After(now) {
		return time.Time{}, fmt.Errorf("--until %s: that is over", text)
	}
	return end, nil
}

// willNotDrift reads the cluster, and finds what could replace its nodes in a period.
func willNotDrift(ctx context.Context, c *clusterAccess, now, until time.Time) (*willNotDriftReport, error) {
	live, err := cluster.Live(ctx, c)
	if err != nil {
		return nil, explain(err, "read the cluster")
	}
	claims, err := nodeClaims(ctx, c)
	if err != nil {
		return nil, err
	}
	syncs, err := nodeSyncs(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range syncs {
		if live.Fork == "" {
			live.Fork = plan.ForkOf(syncs[i].Status.Karpenter)
		}
	}
	report := &willNotDriftReport{From: now, Until: until, Movers: []plan.Mover{}}
	expires := map[types.UID]time.Time{}
	for i := range claims {
		claim := &claims[i]
		if after := claim.Spec.ExpireAfter.Duration; after != nil {
			expires[claim.UID] = claim.CreationTimestamp.Add(*after)
		}
		if claim.Labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeSpot {
			report.Spot++
		}
	}
	found, err := plan.Freeze{Now: now, Until: until, Live: live, Expires: expires, Syncs: syncs}.Movers()
	if err != nil {
		return nil, err
	}
	report.Movers = append(report.Movers, found...)
	return report, nil
}

// printWillNotDrift prints what could replace nodes.
func printWillNotDrift(out io.Writer, r *willNotDriftReport) {
	visible := &display.Visible{Writer: out}
	until := r.Until.UTC().Format(calendarTime)
	if len(r.Movers) == 0 {
		fmt.Fprintf(visible, "nothing known replaces or terminates a node until %s\n", until)
	} else {
		fmt.Fprintf(visible, "until %s, these can replace or terminate nodes:\n", until)
	}
	for _, m := range r.Movers {
		when := "from now on"
		if m.From.After(r.From) {
			when = "from " + m.From.UTC().Format(calendarTime)
		}
		fmt.Fprintf(out, "  %s, %s: %s\n", m.Kind, when, redact.Visible(m.Message))
		if m.Fix != "" {
			fmt.Fprintf(out, "    fix: %s\n", redact.Visible(m.Fix))
		}
	}
	if r.Spot > 0 {
		fmt.Fprintf(out, "not counted: AWS can reclaim %s at any time\n", english.Plural(r.Spot, "Spot instance", ""))
	}
	fmt.Fprintln(out, "not known: later commits, and changes in the cluster or in AWS")
}
