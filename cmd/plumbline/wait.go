package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// A NodeSync is read every askEvery, and its pools are counted every countEvery.
	askEvery, countEvery = 500 * time.Millisecond, 2 * time.Second
	// printEvery is how often a count is printed in a pipe.
	printEvery = 15 * time.Second
	// readTime limits a query to the cluster.
	readTime = 30 * time.Second
	// unreachableFor is how long the cluster may be unreachable once it has responded.
	unreachableFor = time.Minute
	// printUnhandledAfter is how long to wait for the daemon to handle a request before printing that it has not.
	printUnhandledAfter = 3 * time.Second
)

// waitReconciled waits until the daemon has handled the request and the NodeSync has reached the requested state, or
// until a person has to do something.
func (c *clusterAccess) waitReconciled(cmd *cobra.Command, name, requested string, until waitFor, timeout time.Duration) error {
	p, began := newProgress(cmd.ErrOrStderr(), time.Now), time.Now()
	defer p.end()
	var last *v1alpha1.NodeSync
	answers := contact{at: began}
	err := wait.PollUntilContextTimeout(cmd.Context(), askEvery, timeout, true, func(context.Context) (bool, error) {
		// The end of the wait does not cut off a query: its error would look like the cluster's.
		ctx, stop := context.WithTimeout(cmd.Context(), readTime)
		defer stop()
		sync, err := c.nodeSync(ctx, name)
		if answers.lost(err, time.Now()) {
			p.printWait("the cluster cannot be reached; trying again")
			return false, nil
		}
		if err != nil {
			return false, err
		}
		last = sync
		if is := summary.Resting(sync); is != "" {
			return false, fmt.Errorf("%s was %s: nothing is reconciled until `plumbline resume %s -n %s`",
				nodeSyncWord(name), is, sync.Name, sync.Namespace)
		}
		if sync.Status.LastHandledReconcileAt != requested {
			if time.Since(began) > printUnhandledAfter {
				p.printWait("the daemon has not handled the request yet")
			}
			return false, nil
		}
		done := until.reached(sync)
		p.printWait(until.message(sync))
		if !done && !conditions.IsReady(sync) && p.countDue() {
			p.count(c.countPools(ctx, sync))
		}
		return done, nil
	})
	p.end()
	switch {
	case err == nil:
		return until.exit(last)
	case errors.Is(err, context.DeadlineExceeded) && answers.err != nil:
		return answers.err
	case errors.Is(err, context.DeadlineExceeded) && time.Since(began) >= timeout:
		return &exitError{code: exitStalled, message: c.notDone(cmd.Context(), name, last, requested, until, timeout)}
	case errors.Is(err, context.Canceled):
		return &exitError{code: exitFailed, message: c.stopped(context.WithoutCancel(cmd.Context()), last, requested)}
	}
	return err
}

// stopped returns what to print if the user stops a wait, including the reason if no daemon leads and that can be found
// out quickly.
func (c *clusterAccess) stopped(ctx context.Context, last *v1alpha1.NodeSync, requested string) string {
	ctx, stop := context.WithTimeout(ctx, askEvery)
	defer stop()
	handled := last != nil && last.Status.LastHandledReconcileAt == requested
	why, _ := c.noDaemon(ctx, handled)
	switch {
	case why != "":
		return "stopped waiting; " + why
	case !handled:
		return "stopped waiting; the daemon has not handled the request yet"
	default:
		return "stopped waiting"
	}
}

// contact is when the cluster last responded, and the error since then.
type contact struct {
	at  time.Time
	err error
}

// lost reports whether the cluster is unreachable, but may be back soon, as when an API server is upgraded or a laptop
// changes its network.
func (c *contact) lost(err error, now time.Time) bool {
	if !errors.Is(err, errUnreachable) {
		c.at, c.err = now, nil
		return false
	}
	c.err = err
	return now.Sub(c.at) < unreachableFor
}

// notDone returns what was waited for when the time was over.
func (c *clusterAccess) notDone(
	ctx context.Context, name string, last *v1alpha1.NodeSync, requested string, until waitFor, timeout time.Duration,
) string {
	words := fmt.Sprintf("%s is not done after %s", nodeSyncWord(name), short(timeout.Round(time.Millisecond)))
	if last == nil || last.Status.LastHandledReconcileAt != requested {
		if why, _ := c.noDaemon(ctx, false); why != "" {
			return words + ": " + why
		}
		return words + ": the daemon has not handled the request; see its log: plumbline logs"
	}
	words += ": " + oneLine(until.message(last))
	switch why, runs := c.noDaemon(ctx, true); {
	case why != "":
		return words + "; " + why
	case runs:
		return words + "; the daemon continues"
	}
	return words
}

// countPools counts the NodePools of a NodeSync, and those that are Ready; zero if they cannot be read.
func (c *clusterAccess) countPools(ctx context.Context, sync *v1alpha1.NodeSync) (ready, all int) {
	kind, _ := render.KindOf(render.NodePool)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GVK)
	label, _ := plan.OwnerOf(sync.Namespace, sync.Name).Label()
	if err := c.List(ctx, list, client.MatchingLabels{v1alpha1.OwnerLabel: label}); err != nil {
		return 0, 0
	}
	for i := range list.Items {
		if cluster.Ready(plan.NewObject(&list.Items[i])).Ready {
			ready++
		}
	}
	return ready, len(list.Items)
}

// progress prints while a command waits: on a terminal one line that is updated, in a pipe a line for each thing to
// wait for, and a count now and then.
type progress struct {
	out io.Writer
	// width is the width of the terminal; 0 if it is none.
	width int
	now   func() time.Time
	// said is what is waited for, and counts the progress.
	said, counts string
	// shown is the current line of the terminal.
	shown             string
	counted, reported time.Time
}

func newProgress(out io.Writer, now func() time.Time) *progress {
	return &progress{out: out, width: display.Width(out), now: now}
}

// printWait prints what is waited for, once.
func (p *progress) printWait(what string) {
	if what = redact.Visible(what); what == p.said || what == "" {
		return
	}
	p.said, p.counts, p.reported = what, "", p.now()
	if p.width == 0 {
		fmt.Fprintln(p.out, what)
		return
	}
	p.show()
}

// countDue reports whether it is time to count again.
func (p *progress) countDue() bool {
	if p.now().Sub(p.counted) < countEvery {
		return false
	}
	p.counted = p.now()
	return true
}

// count prints how many of the NodePools are Ready.
func (p *progress) count(ready, all int) {
	counts := fmt.Sprintf("%d/%d NodePools Ready", ready, all)
	if all == 0 || counts == p.counts {
		return
	}
	if p.width > 0 {
		p.counts = counts
		p.show()
		return
	}
	if p.counts == "" && ready < all || p.now().Sub(p.reported) >= printEvery {
		p.counts, p.reported = counts, p.now()
		fmt.Fprintln(p.out, counts)
	}
}

// show rewrites the line (ECMA-48: EL).
func (p *progress) show() {
	line := oneLine(p.said)
	if p.counts != "" {
		line = p.counts + ": " + line
	}
	if runes := []rune(line); len(runes) >= p.width {
		line = string(runes[:max(p.width-2, 0)]) + "…"
	}
	fmt.Fprint(p.out, "\r\x1b[K"+line)
	p.shown = line
}

// end prints what was last waited for in full, and leaves the cursor at the beginning of a line.
func (p *progress) end() {
	if p.shown == "" {
		return
	}
	fmt.Fprint(p.out, "\r\x1b[K"+p.said+"\n")
	p.shown = ""
}

// waitFor is what --wait waits for; empty if it is not given. It is a pflag.Value.
type waitFor string

const (
	// waitForApplied waits until the definitions are applied and Ready and no removal is open.
	waitForApplied waitFor = "applied"
	// waitForRollout waits, in addition, until each node matches its definitions and none is missing.
	waitForRollout waitFor = "rollout"
)

// String returns the flag's value.
func (w *waitFor) String() string { return string(*w) }

// Set sets the flag's value.
func (w *waitFor) Set(value string) error {
	switch waitFor(value) {
	case waitForApplied, waitForRollout:
		*w = waitFor(value)
		return nil
	}
	return fmt.Errorf("%q is neither %s nor %s", value, waitForApplied, waitForRollout)
}

// Type returns the flag's values, as help shows them.
func (w *waitFor) Type() string { return "applied|rollout" }

// reached reports whether a NodeSync has reached the state, or a person has to do something before it can.
func (w waitFor) reached(sync *v1alpha1.NodeSync) bool {
	switch state := summary.StateOf(sync); {
	case conditions.IsStalled(sync):
		return true
	case !conditions.IsReady(sync):
		return false
	case w == waitForRollout:
		return state == summary.InSync || state == summary.RolloutStopped || state == summary.RolloutFailing
	default:
		return summary.WhyUnknown(sync) == ""
	}
}

// message returns what the wait is for, in one line.
func (w waitFor) message(sync *v1alpha1.NodeSync) string {
	if w == waitForRollout && summary.StateOf(sync).OfNodes() {
		return summary.Message(sync)
	}
	return conditions.GetMessage(sync, meta.ReadyCondition)
}

// exit returns the exit code of a wait that is over.
func (w waitFor) exit(sync *v1alpha1.NodeSync) error {
	if w == waitForRollout {
		return exitOf(sync)
	}
	return exitOfReady(sync)
}

func newReconcileCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var until waitFor
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "reconcile NODESYNC...",
		Short: "Fetch and reconcile a NodeSync now",
		Long: `Fetch and reconcile NodeSyncs now instead of at their next interval. With --wait
the command waits until the newest revision is applied and Ready, no removal is
open, each node matches its definitions, and no NodePool has too few nodes
because its launches fail; --wait=applied does not wait for the nodes. It prints
on stderr what it waits for, with a count of the NodePools that are Ready or of
the nodes that are replaced. If you interrupt the command, the daemon continues.

Exit codes: 0 done, or without --wait requested, 1 error, 3 held by the guard,
4 stalled, timed out, or a rollout that fails or is stopped.`,
		Example: `  # Reconcile, and wait until each node that the newest commit makes out of date is replaced
  plumbline reconcile prod-eu --wait --wait-timeout 1h

  # Wait only until the definitions are applied
  plumbline reconcile prod-eu --wait=applied`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, math.MaxInt),
	}
	cmd.Flags().Var(&until, "wait",
		"wait until the definitions are applied, or until the nodes are replaced as well; --wait is --wait=rollout")
	cmd.Flags().Lookup("wait").NoOptDefVal = string(waitForRollout)
	_ = cmd.RegisterFlagCompletionFunc("wait", cobra.FixedCompletions([]string{string(waitForApplied), string(waitForRollout)}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.Flags().DurationVar(&timeout, "wait-timeout", 10*time.Minute, "longest time that --wait waits")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		requested := make([]string, len(args))
		for i, name := range args {
			if requested[i], err = c.requestReconcile(cmd.Context(), name); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: reconciliation requested\n", nodeSyncWord(name))
		}
		if until == "" {
			return nil
		}
		began := time.Now()
		var ends []error
		for i, name := range args {
			ends = append(ends, c.waitReconciled(cmd, name, requested[i], until, timeout-time.Since(began)))
		}
		return mostSevere(ends...)
	}
	return cmd
}

// requestReconcile sets the annotation that wakes the daemon, and returns its value.
func (c *clusterAccess) requestReconcile(ctx context.Context, name string) (string, error) {
	sync, err := c.nodeSync(ctx, name)
	if err != nil {
		return "", err
	}
	if is := summary.Resting(sync); is != "" {
		return "", fmt.Errorf("nodesync/%[1]s is %[3]s: `plumbline resume %[1]s -n %[2]s` first", sync.Name, sync.Namespace, is)
	}
	requested, err := watch.Request(ctx, c, client.ObjectKeyFromObject(sync), time.Now())
	if err != nil {
		return "", explain(err, "write NodeSync "+name)
	}
	return requested, nil
}

// exitOf returns the exit code for the state of a NodeSync and of its nodes.
func exitOf(sync *v1alpha1.NodeSync) error {
	switch summary.StateOf(sync) { //nolint:exhaustive // the others are those of Ready
	case summary.RolloutStopped, summary.RolloutFailing:
		return &exitError{code: exitStalled}
	case summary.RolloutHeld:
		return &exitError{code: exitHeld}
	}
	return exitOfReady(sync)
}

// exitOfReady returns the exit code for Ready.
func exitOfReady(sync *v1alpha1.NodeSync) error {
	if conditions.IsReady(sync) {
		return nil
	}
	switch conditions.GetReason(sync, meta.ReadyCondition) {
	case v1alpha1.ReasonHeld:
		return &exitError{code: exitHeld}
	case v1alpha1.ReasonStalled:
		return &exitError{code: exitStalled}
	case v1alpha1.ReasonDrifted:
		return &exitError{code: exitChanges}
	}
	return &exitError{code: exitFailed}
}
