package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/provision/bootstrap/deploy"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
)

// findStack finds what plumbline bootstrap has made in AWS, for the level that deletes it, before anything is changed. An earlier
// run may have deleted it after the NodeSync. Errors: there is nothing, or AWS does not answer.
func (t *teardownCommand) findStack(ctx context.Context, sync *v1alpha1.NodeSync) error {
	if !t.downTo.Takes(teardown.ToAWS) {
		return nil
	}
	b := t.undoCommand(ctx)
	if err := b.open(ctx, t.points); err != nil {
		return err
	}
	made, err := b.made(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("find what plumbline bootstrap has made: %w; nothing was changed", err)
	case !made.exists() && sync != nil:
		return fmt.Errorf("stack %s does not exist in %s: plumbline bootstrap has not set up EKS cluster %s, so use --down-to %s; nothing was changed",
			b.stack.Stack, t.v.region, t.v.cluster, teardown.ToCRDs)
	}
	t.undo = b
	return nil
}

// undoCommand returns plumbline bootstrap for this cluster, which prints as the teardown does.
func (t *teardownCommand) undoCommand(ctx context.Context) *bootstrapCommand {
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetIn(t.cmd.InOrStdin())
	cmd.SetErr(t.cmd.ErrOrStderr())
	cmd.SetOut(t.cmd.OutOrStdout())
	if _, events := t.show.(*eventShow); events {
		cmd.SetOut(t.cmd.ErrOrStderr())
	}
	b := &bootstrapCommand{
		cmd: cmd, kubeconfig: t.kubeconfig, dial: t.v.dialProvisioner, began: t.v.now(), report: t.show.sentence,
		pause: func(ctx context.Context, d time.Duration) error {
			if !t.v.now().Before(t.until) {
				return &exitError{code: exitStalled, message: fmt.Sprintf("after %s: CloudFormation has not deleted the stack yet. To continue:\n  %s",
					short(t.timeout), t.continueCommand())}
			}
			return pause.For(ctx, d)
		},
	}
	b.cluster, b.region, b.namespace, b.yes = t.v.cluster, t.v.region, t.c.namespaceOfNodeSyncs(ctx), t.yes
	return b
}

// stackName returns the name of the stack that is deleted; empty if it stays.
func (t *teardownCommand) stackName() string {
	if t.undo == nil {
		return ""
	}
	return t.undo.stack.Stack
}

// deleteStack does what plumbline bootstrap --undo does: it refuses while something uses the stack.
func (t *teardownCommand) deleteStack(ctx context.Context) error {
	if t.undo == nil {
		return nil
	}
	t.undo.yes = t.yes || t.confirmed
	err := t.undo.undoAll(ctx)
	var failed *deploy.FailedError
	switch {
	case errors.As(err, &failed):
		return &exitError{code: exitStalled, message: failed.Error() + ". To continue:\n  " + t.continueCommand()}
	case err != nil:
		return err
	}
	t.show.sentence(fmt.Sprintf("nothing of plumbline bootstrap is left in AWS; plumbline still runs, without its role: helm uninstall plumbline -n %s",
		t.undo.namespace))
	return nil
}
