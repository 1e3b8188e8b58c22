package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// historyReport lists terminated nodes, the newest first.
type historyReport struct {
	Since   metav1.Time      `json:"since,omitzero"`
	Records []terminatedNode `json:"records"`
	Gaps    []historyGap     `json:"gaps,omitempty"`
	Summary historyCounts    `json:"summary"`

	// began is when the record of each NodeSync starts.
	began map[string]metav1.Time
}

// terminatedNode is a NodeClaim of a NodeSync.
type terminatedNode struct {
	NodeSync        string `json:"nodeSync"`
	recorder.Record `json:",inline"`
}

type historyGap struct {
	NodeSync     string `json:"nodeSync"`
	recorder.Gap `json:",inline"`
}

// historyCounts counts the nodes that were terminated, or are terminating.
type historyCounts struct {
	Total    int            `json:"total"`
	ByCause  map[string]int `json:"byCause"`
	ByPool   map[string]int `json:"byPool"`
	ByCommit map[string]int `json:"byCommit"`
}

func newHistoryCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history [NODESYNC]",
		Short: "List the nodes that were terminated, and why",
		Long: `List the NodeClaims that were terminated, newest first, each with its cause and the
commit applied at the time, and count them by cause, pool and commit. plumbline keeps
the newest 2,000 of each NodeSync. Terminations while no daemon was running are not
recorded; the command lists those gaps.`,
		Example: `  plumbline history
  plumbline history prod-eu --since 168h --pool general
  plumbline history prod-eu -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	output := addOutput(cmd, formatWide)
	since := cmd.Flags().Duration("since", 24*time.Hour, "how far to look back; 0 shows all records")
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
			err = c.installed(cmd.Context(), "read which nodes were terminated")
		}
		if err != nil {
			return err
		}
		if len(report.Records) == 0 && (*output == formatTable || *output == formatWide) {
			fmt.Fprintln(cmd.ErrOrStderr(), report.nothingRecorded())
		}
		return output.write(cmd.OutOrStdout(), report, func(out io.Writer) error {
			report.print(out, *output == formatWide)
			return nil
		})
	}
	return cmd
}

// historyOf reads what was terminated since a time, for one NodeSync or all, and one pool or all.
func historyOf(ctx context.Context, c *clusterAccess, of, pool string, from time.Time) (*historyReport, error) {
	logs, err := recorder.Read(ctx, c, c.namespaceOfNodeSyncs(ctx))
	if err != nil {
		return nil, explain(err, "read which nodes were terminated")
	}
	report := &historyReport{
		Since: metav1.NewTime(from), Records: []terminatedNode{}, began: map[string]metav1.Time{},
		Summary: historyCounts{ByCause: map[string]int{}, ByPool: map[string]int{}, ByCommit: map[string]int{}},
	}
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		if of != "" && name != of {
			continue
		}
		report.began[name] = logs[name].Since
		for _, r := range logs[name].Records {
			if !r.End().Before(from) && (pool == "" || r.Pool == pool) {
				report.Records = append(report.Records, terminatedNode{name, r})
				report.Summary.count(r)
			}
		}
		for _, gap := range logs[name].Gaps {
			if !gap.To.Time.Before(from) {
				report.Gaps = append(report.Gaps, historyGap{name, gap})
			}
		}
	}
	slices.SortStableFunc(report.Records, func(a, b terminatedNode) int { return recorder.NewestFirst(a.Record, b.Record) })
	return report, nil
}

func (c *historyCounts) count(r recorder.Record) {
	c.Total++
	c.ByCause[string(r.Cause)]++
	c.ByPool[r.Pool]++
	c.ByCommit[cmp.Or(render.ShortRevision(r.Revision), "none")]++
}

// nothingRecorded returns that no node was terminated, and since when terminations are recorded.
func (r *historyReport) nothingRecorded() string {
	if len(r.began) == 0 {
		return "no terminated nodes are recorded yet"
	}
	var since []string
	for _, name := range slices.Sorted(maps.Keys(r.began)) {
		since = append(since, fmt.Sprintf("terminations of nodesync/%s are recorded since %s", name, formatTime(r.began[name])))
	}
	return "no terminated nodes; " + strings.Join(since, ", ")
}

func (r *historyReport) print(out io.Writer, wide bool) {
	if len(r.Records) > 0 {
		header := []any{"GONE", "NODECLAIM", "POOL", "CAUSE", "COMMIT"}
		if wide {
			header = append(header, "NODESYNC", "NODE", "INSTANCE", "TYPE", "ZONE", "CAPACITY", "PODS", "LASTED")
		}
		t := display.NewNarrowedTable(out, 3, []int{2, 4}, header...)
		if wide {
			t = display.NewTableOf(out, 0, header...) // the terminal wraps it
		}
		for _, e := range r.Records {
			t.AppendRow(e.row(wide))
		}
		t.Render()
		fmt.Fprintln(out)
		s := r.Summary
		fmt.Fprintf(out, "%s: %s\n", english.Plural(s.Total, "node", ""), countWords(s.ByCause))
		fmt.Fprintf(out, "by pool: %s\n", countWords(s.ByPool))
		fmt.Fprintf(out, "by commit: %s\n", countWords(s.ByCommit))
	}
	for _, gap := range r.Gaps {
		fmt.Fprintf(out, "nodesync/%s: %s\n", gap.NodeSync, summary.Gap(gap.Gap))
	}
}

func (e terminatedNode) row(wide bool) []any {
	row := []any{
		summary.Gone(e.Record, time.Now()), redact.Visible(e.NodeClaim), redact.Visible(e.Pool), summary.Cause(e.Record),
		render.ShortRevision(e.Revision),
	}
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

// countWords returns counts in words, the largest first.
func countWords(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	words := make([]string, 0, len(names))
	for _, name := range names {
		words = append(words, fmt.Sprintf("%d %s", counts[name], redact.Visible(name)))
	}
	return strings.Join(words, ", ")
}

// completeTerminated completes the names of NodeClaims, both running and terminated.
func completeTerminated(kubeconfig *genericclioptions.ConfigFlags) cobra.CompletionFunc {
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
		logs, err := recorder.Read(cmd.Context(), c, c.namespaceOfNodeSyncs(cmd.Context()))
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

// pastPools returns the NodePools of terminated nodes.
func pastPools(ctx context.Context, c *clusterAccess, args []string) ([]string, error) {
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

func newEventsCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events NODESYNC",
		Short: "List the events of a NodeSync, the newest last",
		Long: `List the Kubernetes events of a NodeSync: what plumbline applied, removed, held,
refused and corrected. By default the API server keeps events for an hour.`,
		Example:           "  plumbline events prod-eu",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, sync, err := nodeSyncOf(cmd.Context(), kubeconfig, args[0])
		if err != nil {
			return err
		}
		found := &corev1.EventList{}
		of := client.MatchingFields{"involvedObject.kind": v1alpha1.NodeSyncKind, "involvedObject.name": sync.Name}
		if err := c.List(cmd.Context(), found, client.InNamespace(sync.Namespace), of); err != nil {
			return explain(err, "list events")
		}
		found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("EventList"))
		slices.SortStableFunc(found.Items, func(a, b corev1.Event) int { return lastSeen(&a).Compare(lastSeen(&b).Time) })
		for i := range found.Items {
			found.Items[i].ManagedFields = nil
		}
		if len(found.Items) == 0 && *output == formatTable {
			fmt.Fprintf(cmd.ErrOrStderr(), "no events of nodesync/%s are left\n", sync.Name)
			return nil
		}
		return output.write(cmd.OutOrStdout(), found, func(out io.Writer) error {
			t := display.NewFittedTable(out, "LAST SEEN", "TYPE", "REASON", "MESSAGE")
			for i := range found.Items {
				e := &found.Items[i]
				t.AppendRow([]any{age(lastSeen(e)), e.Type, e.Reason, oneLine(e.Message)})
			}
			t.Render()
			return nil
		})
	}
	return cmd
}

// lastSeen returns when an event was last reported.
func lastSeen(e *corev1.Event) metav1.Time {
	for _, at := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !at.IsZero() {
			return metav1.NewTime(at)
		}
	}
	return e.CreationTimestamp
}

// longestLine is the maximum length of a line of the daemon's log, in bytes.
const longestLine = 1 << 20

func newLogsCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	options := corev1.PodLogOptions{Container: "plumbline"}
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "logs [NODESYNC]",
		Short: "Print the daemon's log, for one NodeSync or all",
		Long: `Print the logs of the daemon's pods, for one NodeSync or all. Each line starts with
its time and level. -o json prints the lines unchanged.`,
		Example:           "  plumbline logs prod-eu --since 1h\n  plumbline logs -f",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	output := addOutput(cmd)
	cmd.Flags().BoolVarP(&options.Follow, "follow", "f", false, "keep running, and print new lines")
	cmd.Flags().DurationVar(&since, "since", 0, "print only lines newer than this, such as 5m; 0 prints all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *output == formatYAML {
			return errors.New("-o is table or json for logs")
		}
		if since > 0 {
			seconds := int64(max(since.Round(time.Second), time.Second).Seconds())
			options.SinceSeconds = &seconds
		}
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		name := ""
		if len(args) > 0 {
			if name, err = nameOf(args[0]); err != nil {
				return err
			}
		}
		lines, err := c.logs(cmd.Context(), options, name)
		if err != nil {
			return err
		}
		return lines.print(cmd.Context(), cmd.OutOrStdout(), *output == formatJSON)
	}
	return cmd
}

// logLines are the log lines of the daemon's pods, for one NodeSync or all.
type logLines struct {
	streams []io.ReadCloser
	of      string
	follow  bool
}

// logs opens the logs of the daemon's pods.
func (c *clusterAccess) logs(ctx context.Context, options corev1.PodLogOptions, of string) (*logLines, error) {
	clients, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, explain(err, "connect to "+c.config.Host)
	}
	namespace := c.namespaceOfNodeSyncs(ctx)
	pods, err := clients.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=plumbline"})
	if err != nil {
		return nil, explain(err, "list the pods of plumbline in "+namespace)
	}
	lines := &logLines{of: of, follow: options.Follow}
	for i := range pods.Items {
		stream, err := clients.CoreV1().Pods(namespace).GetLogs(pods.Items[i].Name, &options).Stream(ctx)
		if err != nil {
			return nil, explain(err, "read the log of pod "+namespace+"/"+pods.Items[i].Name)
		}
		lines.streams = append(lines.streams, stream)
	}
	if len(lines.streams) == 0 {
		if err := c.installed(ctx, "read the logs of plumbline"); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("no pod of plumbline runs in %s: give the daemon's namespace with -n", namespace)
	}
	return lines, nil
}

// print prints the lines: as they arrive, or sorted by time.
func (l *logLines) print(ctx context.Context, out io.Writer, raw bool) error {
	var mu sync.Mutex
	var all []logLine
	var reads errgroup.Group
	for _, stream := range l.streams {
		reads.Go(func() error {
			defer stream.Close()
			scanner := bufio.NewScanner(stream)
			scanner.Buffer(nil, longestLine)
			for scanner.Scan() {
				line := parseLine(scanner.Text())
				if l.of != "" && line.of() != l.of {
					continue
				}
				mu.Lock()
				if l.follow {
					fmt.Fprintln(out, line.words(raw))
				} else {
					all = append(all, line)
				}
				mu.Unlock()
			}
			return scanner.Err()
		})
	}
	err := reads.Wait()
	slices.SortStableFunc(all, func(a, b logLine) int { return strings.Compare(a.at(), b.at()) })
	for _, line := range all {
		fmt.Fprintln(out, line.words(raw))
	}
	if ctx.Err() != nil && l.follow {
		return nil // the user has seen enough
	}
	return err
}

// logLine is one line of the daemon's log: JSON, or plain text.
type logLine struct {
	text   string
	fields map[string]any
}

func parseLine(text string) logLine {
	line := logLine{text: text}
	if json.Unmarshal([]byte(text), &line.fields) != nil {
		line.fields = nil // the Go runtime does not log JSON
	}
	return line
}

// at returns when the line was logged, in RFC 3339.
func (l logLine) at() string { return l.word("ts") }

func (l logLine) word(field string) string {
	word, _ := l.fields[field].(string)
	return word
}

// of returns the NodeSync that the line is about; empty if none.
func (l logLine) of() string {
	for _, field := range []string{"NodeSync", "object"} {
		object, _ := l.fields[field].(map[string]any)
		if kind, named := object["kind"].(string); named && kind != "NodeSync" {
			continue
		}
		if name, named := object["name"].(string); named {
			return name
		}
	}
	return ""
}

// known lists the fields that are printed separately, or that only tell where a line comes from.
var known = []string{
	"ts", "level", "msg", "logger", "controller", "controllerGroup", "controllerKind", "NodeSync", "namespace", "name", "reconcileID",
	"object", "type",
}

// words returns the line in readable form.
func (l logLine) words(raw bool) string {
	if raw || l.fields == nil {
		return redact.Visible(l.text)
	}
	words := l.at() + " " + l.word("level")
	if of := l.of(); of != "" {
		words += " nodesync/" + of
	}
	words += ": " + l.word("msg")
	for _, field := range slices.Sorted(maps.Keys(l.fields)) {
		if slices.Contains(known, field) {
			continue
		}
		value, err := json.Marshal(l.fields[field])
		if err != nil {
			continue // it was decoded from JSON
		}
		words += fmt.Sprintf(" %s=%s", field, value)
	}
	return redact.Visible(strings.ReplaceAll(words, "\n", " "))
}
