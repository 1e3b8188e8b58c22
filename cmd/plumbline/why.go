package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// The states of a NodeClaim, as `plumbline why` has them.
const (
	claimRuns   = "running"
	claimEnding = "ending"
	claimEnded  = "ended"
)

// whyReport is what is known of one NodeClaim.
type whyReport struct {
	recorder.Record `json:",inline"`

	// NodeSync is whose record it is in; empty if it is in none.
	NodeSync string `json:"nodeSync,omitempty"`
	State    string `json:"state"`
	// Outdated is Karpenter's reason for which it is Drifted, with the inputs that changed where no
	// commit has outdated it, and OutdatedSince since when: zero if Karpenter has not found it yet.
	// Unknown is why nothing tells whether it is outdated.
	Outdated      string      `json:"outdated,omitempty"`
	OutdatedSince metav1.Time `json:"outdatedSince,omitzero"`
	Unknown       string      `json:"unknown,omitempty"`
	// Blocked is what Karpenter said last of why it is not replaced now; of one whose removal is
	// stalled, what its NodeSync says.
	Blocked string `json:"blocked,omitempty"`
	// BreakGlass are the commands that would end it all the same, where its removal is stalled.
	BreakGlass []v1alpha1.BreakGlass `json:"breakGlass,omitempty"`
}

func newWhyCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why NODE|NODECLAIM|INSTANCE-ID|NodePool/NAME|EC2NodeClass/NAME",
		Short: "Say why a node ended, or what keeps one that still runs",
		Long: `Say why a node ended: what it was, the cause, the commit, how many pods it had, and
when each stage of its end was. The daemon records the newest 2,000 NodeClaims of
each NodeSync that end; what it could not see is Unknown.

Of a node that still runs: what it is, whether it is outdated, and what Karpenter
says of why it is not replaced now.

Of a NodePool that leaves: how far it is, what it waits for, since when where that
is stalled, and the commands that would end its nodes all the same.

Of an EC2NodeClass that was deleted while nodes are on it: what keeps it, and the
commit that moves these nodes to a copy of it.`,
		Example: `  plumbline why ip-10-0-0-1.eu-west-1.compute.internal
  plumbline why general-x7k2p
  plumbline why i-0123456789abcdef0 -o json
  plumbline why nodepool/general
  plumbline why ec2nodeclass/default`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEnded(kubeconfig),
	}
	output := addOutput(cmd)
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
		report, err := whyOf(cmd.Context(), c, withoutKind(args[0]))
		if err != nil {
			return err
		}
		return output.write(cmd.OutOrStdout(), report, func(out io.Writer) error {
			report.print(painted(out), paintOn(out))
			return nil
		})
	}
	return cmd
}

// whyOf finds what is known of a NodeClaim by its name, its Node's or its instance's: that it runs,
// else the newest Record.
func whyOf(ctx context.Context, c *clusterAccess, name string) (*whyReport, error) {
	claim, err := nodeClaimNamed(ctx, c, name)
	if err != nil {
		return nil, err
	}
	logs, recordErr := recorder.Read(ctx, c, c.in(ctx))
	found := newestOf(logs, func(r recorder.Record) bool {
		if claim == nil {
			return isNamed(r, name)
		}
		return r.NodeClaim == claim.Name && r.Created.Equal(&claim.CreationTimestamp)
	})
	switch {
	case claim != nil && claim.DeletionTimestamp == nil:
		return runs(ctx, c, claim)
	case found != nil && found.State == claimEnding:
		return stalls(ctx, c, found), nil
	case found != nil:
		return found, nil
	case recordErr != nil:
		return nil, explain(recordErr, "read which nodes have ended")
	case claim != nil:
		return stalls(ctx, c, &whyReport{Record: recorder.RecordOf(claim), State: claimEnding}), nil
	}
	if err := c.installed(ctx, "read why "+name+" has ended"); err != nil {
		return nil, err
	}
	return nil, unrecorded(ctx, c, name, logs)
}

// newestOf is the newest of the Records that are looked for; nil if there is none.
func newestOf(logs map[string]*recorder.Log, is func(recorder.Record) bool) (found *whyReport) {
	for _, sync := range slices.Sorted(maps.Keys(logs)) {
		for _, r := range logs[sync].Records {
			if !is(r) || found != nil && !found.End().Before(r.End()) {
				continue
			}
			found = &whyReport{Record: r, NodeSync: sync, State: claimEnded}
			if r.Gone.IsZero() {
				found.State = claimEnding
			}
		}
	}
	return found
}

// unrecorded returns an error for a name that no record has: it names the period that the records cover, or the definition of
// that name.
func unrecorded(ctx context.Context, c *clusterAccess, name string, logs map[string]*recorder.Log) error {
	for _, kind := range render.Kinds() {
		objects, err := definitionsOf(ctx, c, kind)
		if err != nil {
			break // the rest of the answer does not depend on it
		}
		if slices.ContainsFunc(objects, func(o unstructured.Unstructured) bool { return o.GetName() == name }) {
			return fmt.Errorf("%[1]s not found: no NodeClaim, Node or instance has this name; %[2]s/%[1]s has: plumbline why %[3]s/%[1]s", name, kind.GVK.Kind, strings.ToLower(kind.GVK.Kind))
		}
	}
	words := fmt.Sprintf("%s not found: no NodeClaim, Node or instance has this name, and none that is terminated is recorded in %s", name, c.in(ctx))
	for _, sync := range slices.Sorted(maps.Keys(logs)) {
		log := logs[sync]
		words += fmt.Sprintf("; nodesync/%s: recorded since %s", sync, stamp(log.Since))
		for _, gap := range log.Gaps {
			words += fmt.Sprintf(", but not from %s to %s, as the leader changed", stamp(gap.From), stamp(gap.To))
		}
	}
	return errors.New(words)
}

// nodeClaimNamed is the NodeClaim that runs or ends by this name; nil if there is none.
func nodeClaimNamed(ctx context.Context, c *clusterAccess, name string) (*karpv1.NodeClaim, error) {
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims); err != nil {
		if apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // no Karpenter, no NodeClaim
		}
		return nil, explain(err, "list NodeClaims")
	}
	for i := range claims.Items {
		if isNamed(recorder.RecordOf(&claims.Items[i]), name) {
			return &claims.Items[i], nil
		}
	}
	return nil, nil //nolint:nilnil // that there is none is no error
}

func isNamed(r recorder.Record, name string) bool {
	return slices.Contains([]string{r.NodeClaim, r.Node, r.Instance}, name)
}

// printState says in one line how it is.
func (r *whyReport) printState(out io.Writer, paint painter) {
	name := redact.Visible(r.NodeClaim)
	switch {
	case r.State == claimEnded && r.Late:
		fmt.Fprintf(out, "NodeClaim/%s ended by %s: %s\n", name, stamp(r.Gone), paint(r.cause(), colourOfCause(r.Cause)))
	case r.State == claimEnded:
		fmt.Fprintf(out, "NodeClaim/%s ended %s ago: %s\n", name, age(r.Gone), paint(r.cause(), colourOfCause(r.Cause)))
	case r.State == claimEnding && r.Cause != "":
		fmt.Fprintf(out, "NodeClaim/%s has been ending for %s: %s so far\n", name, age(r.Deleted), paint(r.cause(), colourOfCause(r.Cause)))
	case r.State == claimEnding:
		fmt.Fprintf(out, "NodeClaim/%s has been ending for %s: it is not recorded why\n", name, age(r.Deleted))
	case r.Outdated != "" && r.OutdatedSince.IsZero():
		fmt.Fprintf(out, "NodeClaim/%s has run for %s, and is %s, which Karpenter has not found yet: %s\n", name, age(r.Created), paint("outdated", text.FgYellow), redact.Visible(r.Outdated))
	case r.Unknown != "":
		fmt.Fprintf(out, "NodeClaim/%s has run for %s; whether it is outdated is unknown: %s\n", name, age(r.Created), redact.Visible(r.Unknown))
	case r.Outdated != "":
		fmt.Fprintf(out, "NodeClaim/%s has run for %s, and has been %s for %s: %s\n", name, age(r.Created), paint("outdated", text.FgYellow), age(r.OutdatedSince), redact.Visible(r.Outdated))
	default:
		fmt.Fprintf(out, "NodeClaim/%s has run for %s, and is up to date\n", name, age(r.Created))
	}
}

// print shows it to people.
func (r *whyReport) print(out io.Writer, paint painter) {
	visible := &visibleWriter{out}
	r.printState(out, paint)
	if words := r.Cause.Words(); words != "" {
		fmt.Fprintf(out, "  %s\n", words)
	}
	fmt.Fprintln(out)
	fmt.Fprintf(visible, "node      %s, instance %s\n", cmp.Or(r.Node, "none"), cmp.Or(r.Instance, "none"))
	fmt.Fprintf(visible, "pool      %s%s\n", r.Pool, r.of())
	fmt.Fprintf(visible, "type      %s\n", r.typeOf())
	if pods := summary.Pods(r.Record); pods != "" {
		fmt.Fprintf(visible, "had       %s when the deletion began, beside those of DaemonSets\n", pods)
	}
	if r.Revision != "" {
		fmt.Fprintf(visible, "commit    %s\n", r.commit())
	}
	if r.Blocked != "" {
		fmt.Fprintf(visible, "kept by   %s\n", oneLine(r.Blocked))
	}
	for _, g := range r.BreakGlass {
		fmt.Fprintf(visible, "at your own risk   %s (%s)\n", g.Command, g.Risk)
	}
	if r.State != claimRuns {
		r.printStages(visible)
	}
}

// printStages shows when each stage was that was seen.
func (r *whyReport) printStages(out io.Writer) {
	fmt.Fprintln(out)
	t := newNarrowedTable(out, 0, []int{2}, "STAGE", "AT", "AFTER")
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
			t.AppendRow([]any{s.name, stamp(s.at), ""})
		default:
			t.AppendRow([]any{s.name, stamp(s.at), short(s.at.Sub(before.Time))})
			before = s.at
		}
	}
	t.Render()
}

// cause is the cause with its detail.
func (r *whyReport) cause() string { return summary.Cause(r.Record) }

// stamp is a time to the second.
func stamp(at metav1.Time) string { return summary.Stamp(at) }

// runs is what is known of a NodeClaim that is not being deleted.
func runs(ctx context.Context, c *clusterAccess, claim *karpv1.NodeClaim) (*whyReport, error) {
	report := stalls(ctx, c, &whyReport{Record: recorder.RecordOf(claim), State: claimRuns})
	leaves := report.Blocked
	if drifted := claim.StatusConditions().Get(karpv1.ConditionTypeDrifted); drifted.IsTrue() {
		report.Outdated, report.OutdatedSince = cmp.Or(drifted.Reason, karpv1.ConditionTypeDrifted), drifted.LastTransitionTime
		if input := inputOf(ctx, c, claim, drifted.Reason); input != nil {
			report.Outdated = input.Words()
		}
	} else if err := report.compare(ctx, c, claim); err != nil {
		return nil, err
	}
	if report.Outdated+report.Unknown == "" {
		return report, nil // nothing wants to end it
	}
	var since time.Time
	if initialized := claim.StatusConditions().Get(karpv1.ConditionTypeInitialized); initialized.IsTrue() {
		since = initialized.LastTransitionTime.Time
	}
	blocked, err := blocker.WhyNotDisrupted(ctx, c, claim.Name, claim.Status.NodeName != "", since, time.Now())
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	report.Blocked = cmp.Or(leaves, blocked)
	return report, nil
}

// stalls adds what keeps a node that leaves with its pool, where a NodeSync reports that its removal is stalled or
// names the node, and the commands that would end it all the same. Without the right to read NodeSyncs the rest
// stands by itself.
func stalls(ctx context.Context, c *clusterAccess, report *whyReport) *whyReport {
	report.Blocked = reported(ctx, c, report)
	removals, err := removalsOf(ctx, c, report.Pool)
	if err != nil {
		return report
	}
	for _, removal := range removals {
		of := removal.breakGlassOf(report.Node, report.NodeClaim)
		if removal.Stalled != nil || len(of) > 0 || names(removal.Message, report.Node) || names(removal.Message, "NodeClaim/"+report.NodeClaim) {
			report.Blocked, report.BreakGlass = summary.WaitsFor(removal.Removal, time.Now()), append(report.BreakGlass, of...)
		}
	}
	return terminates(ctx, c, report)
}

// terminates adds what a node that has been terminating for longer than expected waits for, and the command that terminates it
// all the same.
func terminates(ctx context.Context, c *clusterAccess, report *whyReport) *whyReport {
	syncs := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, syncs, client.InNamespace(c.in(ctx))); err != nil {
		return report
	}
	for i := range syncs.Items {
		for _, t := range syncs.Items[i].Status.Terminations {
			if t.Name != report.NodeClaim && (t.Node == "" || t.Node != report.Node) {
				continue
			}
			report.Blocked = summary.OneLine(t.Message)
			if t.BreakGlass != nil {
				report.BreakGlass = append(report.BreakGlass, *t.BreakGlass)
			}
		}
	}
	return report
}

// reported is what keeps a node by the status of a NodeSync, as `plumbline status` shows it: the policy that denies
// Karpenter's controller the removal of its finalizer, or what a rollout waits for if that names the node or its
// NodeClaim. It is empty if no status names a cause, or NodeSyncs cannot be read.
func reported(ctx context.Context, c *clusterAccess, of *whyReport) string {
	syncs := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, syncs, client.InNamespace(c.in(ctx))); err != nil {
		return ""
	}
	for i := range syncs.Items {
		sync := &syncs.Items[i]
		if of.State == claimEnding && conditions.IsTrue(sync, v1alpha1.KarpenterDeniedCondition) {
			return conditions.GetMessage(sync, v1alpha1.KarpenterDeniedCondition)
		}
		if r := sync.Status.Rollout; r != nil && (names(r.Message, of.Node) || names(r.Message, "NodeClaim/"+of.NodeClaim)) {
			return r.Message
		}
	}
	return ""
}

// names reports whether a message has a name as a word.
func names(message, name string) bool {
	return name != "" && slices.Contains(strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" ,;:()", r) }), name)
}

// inputOf is what has outdated a NodeClaim, where its NodeSync says so; nil if it does not, or
// cannot be read: Karpenter's reason stands there by itself.
func inputOf(ctx context.Context, c *clusterAccess, claim *karpv1.NodeClaim, reason string) *v1alpha1.DriftInput {
	syncs := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, syncs, client.InNamespace(c.in(ctx))); err != nil {
		return nil
	}
	for i := range syncs.Items {
		if input := syncs.Items[i].Status.Rollout.InputOf(claim.Labels[karpv1.NodePoolLabelKey], reason, claim.Status.ImageID); input != nil {
			return input
		}
	}
	return nil
}

// typeOf is what is known of the instance's type: none before it is launched.
func (r *whyReport) typeOf() string {
	known := slices.DeleteFunc([]string{r.InstanceType, r.CapacityType, r.Zone}, func(word string) bool { return word == "" })
	return cmp.Or(strings.Join(known, ", "), "unknown")
}

func (r *whyReport) of() string {
	if r.NodeSync == "" {
		return ""
	}
	return ", of nodesync/" + r.NodeSync
}

// commit says which commit it ended by, or which one was in force.
func (r *whyReport) commit() string {
	commit := render.ShortRevision(r.Revision)
	switch {
	case r.ByRevision && r.Cause == recorder.Removed:
		return commit + ", the first one without the pool"
	case r.ByRevision:
		return commit + ", whose rollout was in progress"
	}
	return commit + ", in force when the deletion began"
}

// colourOfCause is red for what nobody has asked for.
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
