package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

func newGetCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var all, watches bool
	cmd := &cobra.Command{
		Use:   "get [NODESYNC...]",
		Short: "List NodeSyncs",
		Long: `List the NodeSyncs of the namespace given with -n. The default is the kubeconfig's
namespace if it contains NodeSyncs, else the daemon's. With --watch the command keeps
running and prints each change: on a terminal the whole list, in a pipe one line.`,
		Example:           "  plumbline get\n  plumbline get prod-eu -o jsonpath='{.status.lastAppliedRevision}'\n  plumbline get -A --watch",
		ValidArgsFunction: completeNodeSyncs(kubeconfig, math.MaxInt),
	}
	output := addObjectOutput(cmd)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list the NodeSyncs of all namespaces")
	cmd.Flags().BoolVarP(&watches, "watch", "w", false, "keep running, and print each change")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := output.check(); err != nil {
			return err
		}
		if all && len(args) > 0 {
			return errors.New("a name and --all-namespaces cannot be combined")
		}
		if watches {
			return watchNodeSyncs(cmd, kubeconfig, output, all, args)
		}
		list, missing := listNodeSyncs(cmd, kubeconfig, all, args)
		if missing != nil && (list == nil || len(list.Items) == 0) {
			return missing
		}
		if err := warnLeaderMissing(cmd, kubeconfig, list); err != nil {
			return err
		}
		if len(list.Items) == 0 && output.human() {
			words := "no NodeSync here; look in all namespaces with -A"
			if all {
				words = "no NodeSync in any namespace"
			}
			fmt.Fprintln(cmd.ErrOrStderr(), words)
			return nil
		}
		err := output.write(cmd.OutOrStdout(), list, len(args) == 1, func(out io.Writer) error {
			printNodeSyncs(out, list.Items, columns{header: true, namespace: all, wide: output.wide()})
			return nil
		})
		return errors.Join(err, missing)
	}
	return cmd
}

var listKind = v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind + "List")

// listNodeSyncs reads the named NodeSyncs, or all of the namespace, or of all namespaces.
func listNodeSyncs(
	cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, all bool, names []string,
) (*v1alpha1.NodeSyncList, error) {
	c, err := connect(cmd.Context(), kubeconfig)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return c.readNamed(cmd.Context(), names)
	}
	return c.readAll(cmd.Context(), all)
}

// readNamed reads NodeSyncs by name. It returns those that exist, and an error for each of the others.
func (c *clusterAccess) readNamed(ctx context.Context, names []string) (*v1alpha1.NodeSyncList, error) {
	list := &v1alpha1.NodeSyncList{}
	var missing []error
	for _, name := range names {
		sync, err := c.nodeSync(ctx, name)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		list.Items = append(list.Items, *sync)
	}
	list.SetGroupVersionKind(listKind)
	return list, errors.Join(missing...)
}

// readAll reads the NodeSyncs of the namespace, or of all namespaces.
func (c *clusterAccess) readAll(ctx context.Context, all bool) (*v1alpha1.NodeSyncList, error) {
	list := &v1alpha1.NodeSyncList{}
	var options []client.ListOption
	if !all {
		options = append(options, client.InNamespace(c.namespaceOfNodeSyncs(ctx)))
	}
	if err := c.List(ctx, list, options...); err != nil {
		return nil, explain(err, "list NodeSyncs")
	}
	list.SetGroupVersionKind(listKind) // it is not decoded
	for i := range list.Items {
		sync := &list.Items[i]
		sync.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
		sync.ManagedFields = nil
		c.applyStandInStatus(ctx, sync)
	}
	return list, nil
}

// warnLeaderMissing warns about each namespace without a leading daemon: its statuses may be out of date.
func warnLeaderMissing(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, list *v1alpha1.NodeSyncList) error {
	c, err := connect(cmd.Context(), kubeconfig)
	if err != nil {
		return err
	}
	namespaces := map[string]bool{}
	for i := range list.Items {
		namespaces[list.Items[i].Namespace] = true
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if message := leaderMissing(cmd.Context(), c, namespace, time.Now); message != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), followedByOld(message))
		}
	}
	return nil
}

// columns selects the columns of a table of NodeSyncs.
type columns struct{ header, namespace, wide bool }

func printNodeSyncs(out io.Writer, syncs []v1alpha1.NodeSync, show columns) {
	width := display.Width(out)
	if show.wide {
		width = 0 // the terminal wraps it
	}
	shown := show.fit(width)
	names := make([]any, len(shown))
	for i, column := range shown {
		names[i] = column.name
	}
	if !show.header {
		names = nil
	}
	t := show.table(out, width, names)
	for i := range syncs {
		row := make([]any, len(shown))
		for j, column := range shown {
			row[j] = column.of(&syncs[i])
		}
		t.AppendRow(row)
	}
	t.Render()
}

// table returns a table whose last column, the message, is cut at the terminal's width.
func (show columns) table(out io.Writer, width int, names []any) table.Writer {
	if width == 0 || !show.header {
		return display.NewTableOf(out, width, names...)
	}
	var drop []int
	for _, name := range []string{"AGE", "REVISION"} {
		if at := slices.Index(names, any(name)); at >= 0 {
			drop = append(drop, at)
		}
	}
	return display.NewNarrowedTable(out, len(names)-1, drop, names...)
}

// column is a column of the table of NodeSyncs. least is the minimum terminal width to show it: the message needs
// space.
type column struct {
	name  string
	least int
	of    func(*v1alpha1.NodeSync) any
}

// fit returns the columns for a terminal of a width; 0 means that it is not a terminal.
func (show columns) fit(width int) []column {
	all := []column{
		{"NAME", 0, func(n *v1alpha1.NodeSync) any { return n.Name }},
		{"READY", 0, func(n *v1alpha1.NodeSync) any { return summary.ReadyWord(n) }},
		{"REVISION", 70, func(n *v1alpha1.NodeSync) any { return render.ShortRevision(n.Status.LastAppliedRevision) }},
		{"KARPENTER", 110, func(n *v1alpha1.NodeSync) any { return karpenterVersion(n) }},
		{"REMOVALS", 120, removals},
		{"SUSPENDED", 130, func(n *v1alpha1.NodeSync) any { return n.Spec.Suspend }},
		{"AGE", 50, func(n *v1alpha1.NodeSync) any { return age(n.CreationTimestamp) }},
	}
	if show.namespace {
		all = append([]column{{"NAMESPACE", 0, func(n *v1alpha1.NodeSync) any { return n.Namespace }}}, all...)
	}
	if show.wide {
		all = append(all, column{"URL", 0, func(n *v1alpha1.NodeSync) any { return n.Spec.Source.Address() }},
			column{"PATH", 0, func(n *v1alpha1.NodeSync) any { return n.Spec.Path }})
	}
	all = append(all, column{"STATUS", 0, func(n *v1alpha1.NodeSync) any { return summary.Message(n) }})
	return slices.DeleteFunc(all, func(c column) bool { return width > 0 && width < c.least })
}

// removals returns the number of open removals, and how many more wait for a person.
func removals(sync *v1alpha1.NodeSync) any {
	held := 0
	for i := range sync.Status.Removals {
		if sync.Status.Removals[i].Held() {
			held++
		}
	}
	if held == 0 {
		return sync.Status.OpenRemovals
	}
	return fmt.Sprintf("%d, %d held", sync.Status.OpenRemovals, held)
}

// age returns the time since then, in kubectl's format.
func age(at metav1.Time) string { return summary.Age(at, time.Now()) }

func karpenterVersion(sync *v1alpha1.NodeSync) string {
	switch k := sync.Status.Karpenter; {
	case k == nil:
		return ""
	case k.Version == "":
		return k.Management
	default:
		return k.Version
	}
}

// oneLine keeps a message from breaking a table.
func oneLine(message string) string { return summary.OneLine(message) }
