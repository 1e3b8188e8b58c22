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

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

func newWhyCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why NODE|NODECLAIM|INSTANCE-ID|NodePool/NAME|EC2NodeClass/NAME",
		Short: "Show why a node was terminated, or why one still runs and is not scaled down",
		Long: `For a terminated node, show what it was, the cause, the commit, how many pods it had, and
the time of each stage of its termination. The daemon records the newest 2,000 terminated
NodeClaims of each NodeSync; causes that it could not observe are Unknown.

For a running node, show what it is, whether it is outdated, and Karpenter's reason for
not replacing it now. Also show everything that keeps Karpenter from scaling it down: the
consolidation settings and disruption budgets of its NodePool, do-not-disrupt annotations,
PodDisruptionBudgets, and Karpenter's own reports, such as pods that fit nowhere else. With
--aws, run Karpenter's scheduling on a copy of the cluster without the node: which of its
pods would fit on other nodes, and whether a cheaper node could replace it. That queries EC2
for the instance types of the region with your credentials.

For a NodePool that is being removed, show its progress, what it waits for, since when it
is stalled, and the commands that would force the termination of its nodes.

For an EC2NodeClass that was deleted while nodes use it, show what blocks its deletion, and
the commit that moves these nodes to a copy of it.

For another definition, show what its removal waits for, or why it is not Ready.`,
		Example: `  plumbline why ip-10-0-0-1.eu-west-1.compute.internal
  plumbline why general-x7k2p
  plumbline why general-x7k2p --aws
  plumbline why i-0123456789abcdef0 -o json
  plumbline why nodepool/general
  plumbline why ec2nodeclass/default`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTerminated(kubeconfig),
	}
	output := addOutput(cmd)
	aws := cmd.Flags().Bool("aws", false, "for a running node: query EC2 for instance types, and simulate where its pods would go")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		if class, named := classNamed(args[0]); named {
			return whyClass(cmd.Context(), c, class, cmd.OutOrStdout(), output)
		}
		if pool, named := poolNamed(args[0]); named {
			return whyPool(cmd.Context(), c, pool, cmd.OutOrStdout(), output)
		}
		if ref, err := refOfArgument(args[0]); err == nil {
			return whyDefinition(cmd.Context(), c, ref, cmd.OutOrStdout(), output)
		}
		report, err := whyOf(cmd.Context(), c, withoutKind(args[0]), *aws)
		if err != nil {
			return err
		}
		return output.write(cmd.OutOrStdout(), report, func(out io.Writer) error {
			printWhy(display.Painted(out), report, display.Paint(out))
			return nil
		})
	}
	return cmd
}

// whyOf finds a NodeClaim by its name, its Node's or its instance's: a running one, or otherwise the newest Record.
// aws reports whether to simulate the scale-down of a running one.
func whyOf(ctx context.Context, c *clusterAccess, name string, aws bool) (*summary.NodeReport, error) {
	claims, err := nodeClaims(ctx, c)
	if err != nil {
		return nil, err
	}
	claim := nodeClaimNamed(claims, name)
	logs, recordErr := recorder.Read(ctx, c, c.namespaceOfNodeSyncs(ctx))
	found := summary.RecordedNode(logs, func(r recorder.Record) bool {
		if claim == nil {
			return summary.RecordHasName(r, name)
		}
		return r.NodeClaim == claim.Name && r.Created.Equal(&claim.CreationTimestamp)
	})
	// Without permission to read NodeSyncs, the rest of the answer remains.
	syncs, _ := nodeSyncs(ctx, c)
	switch {
	case claim != nil && claim.DeletionTimestamp == nil:
		report, err := reportRunning(ctx, c, claim, syncs)
		if err != nil {
			return nil, err
		}
		return report, addScaleDown(ctx, c, report, claim, claims, aws)
	case found != nil:
		if found.State == summary.NodeTerminating {
			found.Keep(syncs, time.Now())
		}
		return found, nil
	case recordErr != nil:
		return nil, explain(recordErr, "read which nodes were terminated")
	case claim != nil:
		return summary.NodeReportOf(claim, summary.NodeTerminating, syncs, time.Now()), nil
	}
	if err := c.installed(ctx, "read why "+name+" was terminated"); err != nil {
		return nil, err
	}
	return nil, unrecorded(ctx, c, name, logs)
}

// reportRunning reports on a NodeClaim that is not being deleted.
func reportRunning(ctx context.Context, c *clusterAccess, claim *karpv1.NodeClaim, syncs []v1alpha1.NodeSync) (*summary.NodeReport, error) {
	report := summary.NodeReportOf(claim, summary.NodeRunning, syncs, time.Now())
	if !report.Drifted(claim, syncs) {
		if err := compare(ctx, c, report, claim, syncs); err != nil {
			return nil, err
		}
	}
	if report.Outdated+report.Unknown == "" {
		return report, nil // nothing terminates it
	}
	var since time.Time
	if initialized := claim.StatusConditions().Get(karpv1.ConditionTypeInitialized); initialized.IsTrue() {
		since = initialized.LastTransitionTime.Time
	}
	blocked, err := blocker.WhyNotDisrupted(ctx, c, claim.Name, claim.Status.NodeName != "", since, time.Now())
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	report.Blocked = cmp.Or(report.Blocked, blocked)
	return report, nil
}

// compare reads the definitions of a NodeClaim, and compares it with them.
func compare(ctx context.Context, c *clusterAccess, report *summary.NodeReport, claim *karpv1.NodeClaim, syncs []v1alpha1.NodeSync) error {
	lives := map[render.Ref]*plan.Object{}
	made := summary.DefinitionsOf(claim)
	for _, ref := range made {
		kind, _ := render.KindOf(ref.Kind)
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind.GVK)
		switch err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, object); {
		case apierrors.IsForbidden(err):
			report.Unknown = fmt.Sprintf("you are not allowed to read %s, and Karpenter has not found it outdated", ref)
			return nil
		case apierrors.IsNotFound(err), apimeta.IsNoMatchError(err):
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", ref, err)
		}
		lives[ref] = plan.NewObject(object)
	}
	if claim.Status.ProviderID != "" {
		report.Compare(claim, lives, syncs, time.Now())
	}
	return nil
}

// nodeSyncs returns those of the namespace.
func nodeSyncs(ctx context.Context, c *clusterAccess) ([]v1alpha1.NodeSync, error) {
	list := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, list, client.InNamespace(c.namespaceOfNodeSyncs(ctx))); err != nil {
		return nil, explain(err, "list NodeSyncs")
	}
	return list.Items, nil
}

// unrecorded returns an error for a name without a record: it names the period that the records cover, or the
// definition of that name.
func unrecorded(ctx context.Context, c *clusterAccess, name string, logs map[string]*recorder.Log) error {
	for _, kind := range render.Kinds() {
		objects, err := definitionsOf(ctx, c, kind)
		if err != nil {
			break // the rest of the answer does not depend on it
		}
		if slices.ContainsFunc(objects, func(o unstructured.Unstructured) bool { return o.GetName() == name }) {
			return fmt.Errorf("%[1]s not found: no NodeClaim, Node or instance has this name; %[2]s/%[1]s has: plumbline why %[3]s/%[1]s",
				name, kind.GVK.Kind, strings.ToLower(kind.GVK.Kind))
		}
	}
	return errors.New(summary.NotRecorded(name, c.namespaceOfNodeSyncs(ctx), logs))
}

// nodeClaims returns all NodeClaims; none if the cluster does not have the kind.
func nodeClaims(ctx context.Context, c *clusterAccess) ([]karpv1.NodeClaim, error) {
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims); err != nil && !apimeta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return nil, explain(err, "list NodeClaims")
	}
	return claims.Items, nil
}

// nodeClaimNamed returns the running or terminating NodeClaim of this name; nil if there is none.
func nodeClaimNamed(claims []karpv1.NodeClaim, name string) *karpv1.NodeClaim {
	for i := range claims {
		if summary.RecordHasName(recorder.RecordOf(&claims[i]), name) {
			return &claims[i]
		}
	}
	return nil
}

// printWhyState prints the state in one line.
func printWhyState(out io.Writer, r *summary.NodeReport, paint display.Painter) {
	name := redact.Visible(r.NodeClaim)
	switch {
	case r.State == summary.NodeTerminated && r.Late:
		fmt.Fprintf(out, "NodeClaim/%s was terminated by %s: %s\n",
			name, formatTime(r.Gone), paint(summary.Cause(r.Record), colourOfCause(r.Cause)))
	case r.State == summary.NodeTerminated:
		fmt.Fprintf(out, "NodeClaim/%s was terminated %s ago: %s\n", name, age(r.Gone), paint(summary.Cause(r.Record), colourOfCause(r.Cause)))
	case r.State == summary.NodeTerminating && r.Cause != "":
		fmt.Fprintf(out, "NodeClaim/%s has been terminating for %s: %s so far\n",
			name, age(r.Deleted), paint(summary.Cause(r.Record), colourOfCause(r.Cause)))
	case r.State == summary.NodeTerminating:
		fmt.Fprintf(out, "NodeClaim/%s has been terminating for %s: the cause is not recorded\n", name, age(r.Deleted))
	case r.Outdated != "" && r.OutdatedSince.IsZero():
		fmt.Fprintf(out, "NodeClaim/%s has run for %s, and is %s, which Karpenter has not detected yet: %s\n",
			name, age(r.Created), paint("outdated", text.FgYellow), redact.Visible(r.Outdated))
	case r.Unknown != "":
		fmt.Fprintf(out, "NodeClaim/%s has run for %s; whether it is outdated is unknown: %s\n", name, age(r.Created), redact.Visible(r.Unknown))
	case r.Outdated != "":
		fmt.Fprintf(out, "NodeClaim/%s has run for %s, and has been %s for %s: %s\n",
			name, age(r.Created), paint("outdated", text.FgYellow), age(r.OutdatedSince), redact.Visible(r.Outdated))
	default:
		fmt.Fprintf(out, "NodeClaim/%s has run for %s, and is up to date\n", name, age(r.Created))
	}
}

func printWhy(out io.Writer, r *summary.NodeReport, paint display.Painter) {
	visible := &display.Visible{Writer: out}
	printWhyState(out, r, paint)
	if words := r.Cause.Words(); words != "" {
		fmt.Fprintf(out, "  %s\n", words)
	}
	fmt.Fprintln(out)
	fmt.Fprintf(visible, "node      %s, instance %s\n", cmp.Or(r.Node, "none"), cmp.Or(r.Instance, "none"))
	fmt.Fprintf(visible, "pool      %s%s\n", r.Pool, r.Of())
	fmt.Fprintf(visible, "type      %s\n", r.Type())
	if pods := summary.Pods(r.Record); pods != "" {
		fmt.Fprintf(visible, "had       %s when the deletion began, beside those of DaemonSets\n", pods)
	}
	if r.Revision != "" {
		fmt.Fprintf(visible, "commit    %s\n", r.Commit())
	}
	if r.Blocked != "" {
		fmt.Fprintf(visible, "kept by   %s\n", oneLine(r.Blocked))
	}
	for _, g := range r.BreakGlass {
		fmt.Fprintf(visible, "at your own risk   %s (%s)\n", g.Command, g.Risk)
	}
	if r.State != summary.NodeRunning {
		printStages(visible, r)
		return
	}
	printScaleDown(visible, r)
}

// printStages prints the time of each stage that was seen.
func printStages(out io.Writer, r *summary.NodeReport) {
	fmt.Fprintln(out)
	t := display.NewNarrowedTable(out, 0, []int{2}, "STAGE", "AT", "AFTER")
	before := r.Created
	for _, s := range []struct {
		name string
		at   metav1.Time
	}{
		{"created", r.Created},
		{"deletion began", r.Deleted},
		{"drained", r.Drained},
		{"volumes detached", r.VolumesDetached},
		{"instance terminating", r.InstanceTerminating},
		{"gone", r.Gone},
	} {
		switch {
		case s.at.IsZero():
			t.AppendRow([]any{s.name, "not seen", ""})
		case s.name == "created":
			t.AppendRow([]any{s.name, formatTime(s.at), ""})
		default:
			t.AppendRow([]any{s.name, formatTime(s.at), short(s.at.Sub(before.Time))})
			before = s.at
		}
	}
	t.Render()
}

// formatTime formats a time to the second.
func formatTime(at metav1.Time) string { return summary.Stamp(at) }

// colourOfCause returns red for a cause that nobody requested.
func colourOfCause(cause recorder.Cause) text.Color {
	switch cause {
	case recorder.InstanceGone, recorder.Interrupted, recorder.Unhealthy, recorder.LaunchFailed, recorder.NotRegistered:
		return text.FgRed
	case recorder.ByHand, recorder.PoolDeleted, recorder.Unknown:
		return text.FgYellow
	default:
		return text.Reset
	}
}
