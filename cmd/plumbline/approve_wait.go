package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
)

// waitApproved stays until the daemon has counted an Approval, or says why it does not.
func (c *cluster) waitApproved(cmd *cobra.Command, before *v1alpha1.NodeSync, made *v1alpha1.Approval, timeout time.Duration) error {
	name := nodeSyncWord(before.Name)
	err := wait.PollUntilContextTimeout(cmd.Context(), askEvery, timeout, true, func(ctx context.Context) (bool, error) {
		sync, err := c.nodeSync(ctx, before.Name)
		if err != nil {
			return false, err
		}
		if slices.Contains(sync.Status.UsedApprovals, made.UID) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: approved, it goes ahead: plumbline status %s -n %s\n", name, sync.Name, sync.Namespace)
			return true, nil
		}
		return counted(sync, made)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return &exitError{code: exitStalled, message: fmt.Sprintf("%s: the daemon has not counted the Approval after %s; see what it logs: plumbline logs", name, short(timeout))}
	}
	return err
}

// counted says what else the daemon makes of an Approval, as an error that ends the wait: too few
// people have approved, it does not count, or something else is held by now.
func counted(sync *v1alpha1.NodeSync, made *v1alpha1.Approval) (bool, error) {
	held, name := sync.Status.Held, nodeSyncWord(sync.Name)
	switch {
	case held == nil || held.Digest != made.Spec.Digest:
		return false, &exitError{code: exitHeld, message: fmt.Sprintf("%s: something else is held by now, or nothing: plumbline approve %s -n %s", name, sync.Name, sync.Namespace)}
	case strings.Contains(held.Message, made.Name):
		return false, errors.New(held.Message)
	case slices.Contains(held.Approvers, made.Spec.Author):
		return false, &exitError{code: exitHeld, message: fmt.Sprintf("%s: %d of %d have approved: %s", name, len(held.Approvers), held.Needed, strings.Join(held.Approvers, ", "))}
	}
	return false, nil
}

// seeHeld says how what the Plan holds is approved, once the daemon holds it.
func (p *planned) seeHeld(sync *v1alpha1.NodeSync) {
	held := approval.Publish(sync.Status.Held, p.Approvable, sync.GetNeededApprovals())
	if held == nil {
		return
	}
	p.approve, p.approval = held.Digest, fmt.Sprintf("held, once the daemon has this commit: %s; to approve just that: %s", held.Summary, approval.Command(sync, held.Digest))
}
