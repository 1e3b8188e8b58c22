package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// historyReport is which nodes have ended, the newest first.
type historyReport struct {
	Since   metav1.Time   `json:"since,omitzero"`
	Records []endedNode   `json:"records"`
	Gaps    []historyGap  `json:"gaps,omitempty"`
	Summary historyCounts `json:"summary"`

	// began is since when a NodeSync is recorded.
	began map[string]metav1.Time
}

// endedNode is a NodeClaim of a NodeSync.
type endedNode struct {
	NodeSync        string `json:"nodeSync"`
	recorder.Record `json:",inline"`
}

type historyGap struct {
	NodeSync     string `json:"nodeSync"`
	recorder.Gap `json:",inline"`
}

// historyCounts is how many have ended, or are ending.
type historyCounts struct {
	Total    int            `json:"total"`
	ByCause  map[string]int `json:"byCause"`
	ByPool   map[string]int `json:"byPool"`
	ByCommit map[string]int `json:"byCommit"`
}

func newHistoryCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history [NODESYNC]",
		Short: "List the nodes that have ended, and why",
		Long: `List the NodeClaims that have ended, the newest first, each with its cause and the
commit that was in force, and how many ended by cause, pool and commit. Of each
NodeSync the newest 2,000 are kept. What ended while no daemon led is not recorded;
that time is listed.`,
		Example: `  plumbline history
  plumbline history prod-eu --since 168h --pool general
  plumbline history prod-eu -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	output := addOutput(cmd, formatWide)
	since := cmd.Flags().Duration("since", 24*time.Hour, "how far to look back; 0 for all that is recorded")
	pool := cmd.Flags().String("pool", "", "only the nodes of this NodePool")
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(kubeconfig, pastPools))                                                            // the flag exists
	_ = cmd.RegisterFlagCompletionFunc("since", cobra.FixedCompletions([]string{"1h", "24h", "168h", "0"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		of := ""
		if len(args) > 0 {
			sync, err := c.nodeSync(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			of = sync.Name
		}
		var from time.Time
		if *since > 0 {
			from = time.Now().Add(-*since)
		}
		report, err := historyOf(cmd.Context(), c, of, *pool, from)
		if err == nil && len(report.began) == 0 {
			err = c.installed(cmd.Context(), "read which nodes have ended")
		}
		if err != nil {
			return err
		}
		if len(report.Records) == 0 && (*output == formatTable || *output == formatWide) {
			fmt.Fprintln(cmd.ErrOrStderr(), report.nothing())
		}
		return output.write(cmd.OutOrStdout(), report, func(out io.Writer) error {
			report.print(out, *output == formatWide)
			return nil
		})
	}
	return cmd
}

// historyOf reads what has ended since a time, of one NodeSync or all, of one pool or all.
func historyOf(ctx context.Context, c *cluster, of, pool string, from time.Time) (*historyReport, error) {
	logs, err := recorder.Read(ctx, c, c.in(ctx))
	if err != nil {
		return nil, explain(err, "read which nodes have ended")
	}
	report := &historyReport{
		Since: metav1.NewTime(from), Records: []endedNode{}, began: map[string]metav1.Time{},
		Summary: historyCounts{ByCause: map[string]int{}, ByPool: map[string]int{}, ByCommit: map[string]int{}},
	}
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		if of != "" && name != of {
			continue
		}
		report.began[name] = logs[name].Since
		for _, r := range logs[name].Records {
			if !r.End().Before(from) && (pool == "" || r.Pool == pool) {
				report.Records = append(report.Records, endedNode{name, r})
				report.Summary.count(r)
			}
		}
		for _, gap := range logs[name].Gaps {
			if !gap.To.Time.Before(from) {
				report.Gaps = append(report.Gaps, historyGap{name, gap})
			}
		}
	}
	slices.SortStableFunc(report.Records, func(a, b endedNode) int { return recorder.NewestFirst(a.Record, b.Record) })
	return report, nil
}

func (c *historyCounts) count(r recorder.Record) {
	c.Total++
	c.ByCause[string(r.Cause)]++
	c.ByPool[r.Pool]++
	c.ByCommit[cmp.Or(render.ShortRevision(r.Revision), "none")]++
}

// nothing says that nothing has ended, and since when that would be known.
func (r *historyReport) nothing() string {
	if len(r.began) == 0 {
		return "no ended nodes, and nothing is recorded yet"
	}
	var since []string
	for _, name := range slices.Sorted(maps.Keys(r.began)) {
		since = append(since, fmt.Sprintf("nodesync/%s is recorded since %s", name, stamp(r.began[name])))
	}
	return "no ended nodes; " + strings.Join(since, ", ")
}

// print shows it to people.
func (r *historyReport) print(out io.Writer, wide bool) {
	if len(r.Records) > 0 {
		header := []any{"GONE", "NODECLAIM", "POOL", "CAUSE", "COMMIT"}
		if wide {
			header = append(header, "NODESYNC", "NODE", "INSTANCE", "TYPE", "ZONE", "CAPACITY", "PODS", "LASTED")
		}
		t := newNarrowedTable(out, 3, []int{2, 4}, header...)
		if wide {
			t = newTableOf(out, 0, header...) // the terminal wraps it
		}
		for _, e := range r.Records {
			t.AppendRow(e.row(wide))
		}
		t.Render()
		fmt.Fprintln(out)
		s := r.Summary
		fmt.Fprintf(out, "%s: %s\n", english.Plural(s.Total, "node", ""), listed(s.ByCause))
		fmt.Fprintf(out, "by pool: %s\n", listed(s.ByPool))
		fmt.Fprintf(out, "by commit: %s\n", listed(s.ByCommit))
	}
	for _, gap := range r.Gaps {
		fmt.Fprintf(out, "nodesync/%s: %s\n", gap.NodeSync, summary.Gap(gap.Gap))
	}
}

func (e endedNode) row(wide bool) []any {
	row := []any{summary.Gone(e.Record, time.Now()), redact.Visible(e.NodeClaim), redact.Visible(e.Pool), summary.Cause(e.Record), render.ShortRevision(e.Revision)}
	if wide {
		lasted := metav1.Duration{Duration: e.End().Sub(e.Created.Time)}
		pods := ""
		if e.Pods != nil {
			pods = strconv.Itoa(*e.Pods)
		}
		row = append(row, e.NodeSync, e.Node, e.Instance, e.InstanceType, e.Zone, e.CapacityType, pods, short(lasted.Duration))
	}
	return row
}

// listed are counts in words, the most first.
func listed(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	words := make([]string, 0, len(names))
	for _, name := range names {
		words = append(words, fmt.Sprintf("%d %s", counts[name], redact.Visible(name)))
	}
	return strings.Join(words, ", ")
}

// completeEnded completes the names of NodeClaims, those that run and those that have ended.
func completeEnded(kubeconfig *genericclioptions.ConfigFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names := map[string]bool{}
		claims := &karpv1.NodeClaimList{}
		if err := c.List(cmd.Context(), claims); err == nil {
			for i := range claims.Items {
				names[claims.Items[i].Name] = true
			}
		}
		logs, err := recorder.Read(cmd.Context(), c, c.in(cmd.Context()))
		if err != nil && len(names) == 0 {
			return nil, cobra.ShellCompDirectiveError
		}
		for _, log := range logs {
			for _, r := range log.Records {
				names[r.NodeClaim] = true
			}
		}
		return slices.Sorted(maps.Keys(names)), cobra.ShellCompDirectiveNoFileComp
	}
}

// pastPools are the NodePools of the nodes that have ended.
func pastPools(ctx context.Context, c *cluster, args []string) ([]string, error) {
	of := ""
	if len(args) > 0 {
		of = args[0]
	}
	report, err := historyOf(ctx, c, of, "", time.Time{})
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(report.Summary.ByPool)), nil
}
