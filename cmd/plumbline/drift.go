package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

func newDriftCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drift NODESYNC",
		Short: "List differences from Git that no commit explains, and outdated nodes",
		Long: `Print four tables.

  objects       definitions that another client has changed or deleted, NodePools for example: the
                fields, Git's value and the value found, the field managers, and whether
                plumbline has corrected them. Corrections are listed for a day.
  nodes         nodes that Karpenter has found drifted and will replace, with its reason. If no
                commit caused the drift, the inputs that changed are listed: the AMI, subnets,
                security groups, labels or hash of the nodes, and what their definitions
                resolve to now.
  instances     EC2 instances that Karpenter considers in sync but that differ: their tags or
                security groups were edited, another client terminated them, or they have no NodeClaim.
                The daemon compares them every ten minutes (--compare-instances) and only
                reports them.
  terminations  NodeClaims, Nodes and instances that have been terminating for longer than
                five minutes (or spec.removal.stallAfter if that is shorter), no matter which
                client deleted them, and what each waits for.

Exit codes: 0 no drift; 1 error, or unknown because nothing is compared with Git now (the last
commit was refused, Git is unreachable, the NodeSync is suspended, no daemon leads), or instances
cannot be compared with EC2; 2 something differs from Git, a node is outdated, an instance differs,
or a termination is stalled.`,
		Example:           "  plumbline drift prod-eu\n  plumbline drift prod-eu -o markdown",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	output := addOutput(cmd, formatMarkdown)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, sync, err := nodeSyncOf(cmd.Context(), kubeconfig, args[0])
		if err != nil {
			return err
		}
		report, err := driftOf(cmd.Context(), c, sync)
		if err != nil {
			return err
		}
		err = output.write(cmd.OutOrStdout(), report, func(out io.Writer) error {
			report.print(out, *output == formatMarkdown)
			return nil
		})
		if err == nil && report.drifts() {
			return &exitError{code: exitChanges}
		}
		if err == nil && report.Uncompared != "" {
			return fmt.Errorf("drift is unknown: %s", report.Uncompared)
		}
		if err == nil && report.InstancesNotComparedSince != nil {
			return errors.New("drift of instances is unknown: they are not compared with EC2")
		}
		return err
	}
	return cmd
}

// driftReport lists the differences from Git that no commit caused, and the nodes that are outdated.
type driftReport struct {
	Name      string                   `json:"name"`
	Namespace string                   `json:"namespace"`
	Revision  string                   `json:"revision"`
	Objects   []v1alpha1.DriftedObject `json:"objects"`
	Nodes     []summary.OutdatedNode   `json:"nodes"`
	// Uncompared is why the definitions are not compared with Git now; Objects are from the last comparison.
	Uncompared string `json:"uncompared,omitempty"`
	// Instances are EC2 instances that differ from their definitions and NodeClaims, and
	// InstancesUnavailable is why some of them, or of their properties, could not be compared. If none could,
	// InstancesNotComparedSince is when they last were, or when that was first tried.
	Instances                 []v1alpha1.DriftedInstance `json:"instances"`
	InstancesUnavailable      string                     `json:"instancesUnavailable,omitempty"`
	InstancesNotComparedSince *metav1.Time               `json:"instancesNotComparedSince,omitempty"`
	// Terminations are objects that have been terminating for longer than expected, whichever client deleted them.
	Terminations []v1alpha1.Termination `json:"terminations"`
	// Missing are the static NodePools that have lost nodes without a commit.
	Missing []v1alpha1.LaunchFailure `json:"missing,omitempty"`
	// Rollout is the rollout of nodes that do not match, even if Karpenter has not yet marked them drifted.
	Rollout *v1alpha1.Rollout `json:"rollout,omitempty"`
}

// driftOf reads the drift that a NodeSync's daemon has found, and which nodes of its pools are outdated.
func driftOf(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync) (driftReport, error) {
	report := driftReport{
		Name: sync.Name, Namespace: sync.Namespace, Revision: sync.Status.LastAppliedRevision,
		Objects: append([]v1alpha1.DriftedObject{}, sync.Status.Drift...), Nodes: []summary.OutdatedNode{},
		Rollout: sync.Status.Rollout, Instances: []v1alpha1.DriftedInstance{},
		Terminations: append([]v1alpha1.Termination{}, sync.Status.Terminations...),
	}
	if drift := sync.Status.Instances; drift != nil {
		report.Instances = append(report.Instances, drift.Instances...)
		report.InstancesUnavailable, report.InstancesNotComparedSince = drift.Failure, drift.NotComparedSince
	}
	for _, l := range sync.Status.LaunchFailing {
		if l.Lost {
			report.Missing = append(report.Missing, l)
		}
	}
	report.Uncompared = uncompared(ctx, c, sync)
	pools, claims, err := poolsWithClaims(ctx, c, sync)
	if err != nil {
		return report, err
	}
	report.Nodes = summary.OutdatedNodes(pools, claims)
	return report, nil
}

// uncompared returns why the definitions are not compared with Git now; empty if the daemon does.
func uncompared(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync) string {
	if why := leaderMissing(ctx, c, sync.Namespace, time.Now); why != "" {
		return why
	}
	if is := summary.Resting(sync); is != "" && sync.DeletionTimestamp.IsZero() {
		return "it is " + is + " and no longer compared with Git: plumbline resume " + sync.Name
	}
	switch status := summary.Of(sync); summary.State(status.State) { //nolint:exhaustive // in all others it does
	case summary.Deleted, summary.Unseen:
		return "it is " + status.State
	case summary.Unknown:
		return summary.WhyUnknown(sync)
	case summary.Failed, summary.Retrying:
		if status.Attempted != status.Applied {
			return fmt.Sprintf("%s is not applied, and nothing is compared with Git until it or a newer commit is; plumbline status %s shows the reason",
				orNone(render.ShortRevision(status.Attempted)), sync.Name)
		}
		if status.Reason == v1alpha1.ReasonSourceFailed {
			return fmt.Sprintf("Git is unreachable, and may have a newer commit than %s: %s",
				orNone(render.ShortRevision(status.Applied)), oneLine(status.Message))
		}
	}
	return ""
}

// drifts reports whether anything differs now.
func (r driftReport) drifts() bool {
	return len(r.Nodes) > 0 || r.outdates() || len(r.Instances)+len(r.Terminations)+len(r.Missing) > 0 ||
		slices.ContainsFunc(r.Objects, func(o v1alpha1.DriftedObject) bool { return o.CorrectedAt == nil })
}

// outdates reports whether plumbline has found nodes that do not match, though Karpenter may not have yet.
func (r driftReport) outdates() bool { return r.Rollout != nil && r.Rollout.Outdated > 0 }

func (r driftReport) print(out io.Writer, markdown bool) {
	if r.Uncompared != "" && r.drifts() {
		fmt.Fprintf(out, "objects are shown as of the last comparison: %s\n", r.Uncompared)
	}
	if r.Rollout != nil {
		fmt.Fprintf(out, "rollout: %s\n", oneLine(rollout.Words(*r.Rollout)))
		for _, i := range r.Rollout.Inputs {
			fmt.Fprintf(out, "  NodePool/%s: %s\n", i.Pool, oneLine(i.Words()))
		}
	}
	compared := &v1alpha1.InstanceDrift{Failure: r.InstancesUnavailable, NotComparedSince: r.InstancesNotComparedSince}
	if words := compared.FailureMessage(); words != "" {
		fmt.Fprintln(out, oneLine(words))
	}
	show := table.Writer.Render
	if markdown {
		show = table.Writer.RenderMarkdown
	}
	tables := r.tables(out)
	if len(tables) == 0 && r.Uncompared == "" && !r.outdates() {
		fmt.Fprintf(out, "no drift: no other client has changed the definitions of nodesync/%s, and Karpenter has found no drifted node\n",
			r.Name)
	}
	for i, t := range tables {
		if i > 0 {
			fmt.Fprintln(out)
		}
		show(t)
	}
}

// tables returns the tables that have rows: objects, nodes and instances.
func (r driftReport) tables(out io.Writer) (tables []table.Writer) {
	if len(r.Objects) > 0 {
		t := display.NewFittedTable(out, "OBJECT", "STATE", "SINCE", "BY", "GIT → CLUSTER")
		for _, o := range r.Objects {
			state := "differs"
			if o.CorrectedAt != nil {
				state = "corrected"
			}
			t.AppendRow(table.Row{o.Kind + "/" + o.Name, state, age(o.Since), cmp.Or(strings.Join(o.By, ", "), "unknown"), oneLine(o.Message)})
		}
		tables = append(tables, t)
	}
	if len(r.Nodes) > 0 {
		t := display.NewNarrowedTable(out, 0, []int{2, 4, 5}, "NODE", "NODECLAIM", "POOL", "REASON", "SINCE", "STATE")
		for _, n := range r.Nodes {
			t.AppendRow(table.Row{orNone(n.Node), n.NodeClaim, n.Pool, n.Reason, age(n.Since), n.State()})
		}
		tables = append(tables, t)
	}
	if len(r.Instances) > 0 {
		t := display.NewFittedTable(out, "INSTANCE", "NODECLAIM", "POOL", "SINCE", "WHAT DIFFERS")
		for _, i := range r.Instances {
			t.AppendRow(table.Row{i.ID, cmp.Or(i.NodeClaim, "none"), i.Pool, age(i.Since), oneLine(i.Message)})
		}
		tables = append(tables, t)
	}
	if len(r.Terminations) > 0 {
		t := display.NewFittedTable(out, "TERMINATING", "NODE", "POOL", "SINCE", "WHAT IT WAITS FOR")
		for _, one := range r.Terminations {
			t.AppendRow(table.Row{one.Kind + "/" + one.Name, cmp.Or(one.Node, "none"), one.Pool, age(one.Since), oneLine(one.Message)})
		}
		tables = append(tables, t)
	}
	if len(r.Missing) > 0 {
		t := display.NewFittedTable(out, "MISSING", "SINCE", "WHY")
		for _, one := range r.Missing {
			t.AppendRow(table.Row{one.Missing, age(ptr.Deref(one.Since, metav1.Time{})), oneLine(one.Message)})
		}
		tables = append(tables, t)
	}
	return tables
}
