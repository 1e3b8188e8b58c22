package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/reconcile/wake"
)

func newReconcileCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var until waitFor
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "reconcile NODESYNC...",
		Short: "Fetch and reconcile a NodeSync now",
		Long: `Fetch and reconcile NodeSyncs now instead of at their next interval. With --wait
the command waits until the newest revision is applied and Ready, no removal is
open and each node matches its definitions; --wait=applied does not wait for the
nodes. It prints on stderr what it waits for, with a count of the NodePools that
are Ready or of the nodes that are replaced. If you interrupt the command, the
daemon continues.

Exit codes: 0 done, or without --wait requested, 1 error, 3 held by the guard,
4 stalled, timed out, or a rollout that fails or is stopped.`,
		Example: `  # Reconcile, and wait until each node is replaced that the newest commit makes out of date
  plumbline reconcile prod-eu --wait --wait-timeout 1h

  # Wait only until the definitions are applied
  plumbline reconcile prod-eu --wait=applied`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, math.MaxInt),
	}
	cmd.Flags().Var(&until, "wait", "wait until the definitions are applied, or until the nodes are replaced as well; --wait is --wait=rollout")
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
		return gravest(ends...)
	}
	return cmd
}

// requestReconcile sets the annotation that wakes the daemon, and returns its value.
func (c *cluster) requestReconcile(ctx context.Context, name string) (string, error) {
	sync, err := c.nodeSync(ctx, name)
	if err != nil {
		return "", err
	}
	if is := resting(sync); is != "" {
		return "", fmt.Errorf("nodesync/%[1]s is %[3]s: `plumbline resume %[1]s -n %[2]s` first", sync.Name, sync.Namespace, is)
	}
	requested, err := wake.Request(ctx, c, client.ObjectKeyFromObject(sync), time.Now())
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
