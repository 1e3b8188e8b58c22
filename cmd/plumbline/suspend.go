package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

func newSuspendCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "suspend NODESYNC...",
		Short:             "Stop a NodeSync: nothing is fetched, applied or removed until it is resumed",
		Example:           "  plumbline suspend prod-eu",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setSuspend(cmd, kubeconfig, args, true)
		},
	}
}

func newResumeCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "resume NODESYNC...",
		Short:             "Resume a NodeSync that is suspended, or was drained by teardown --down-to nodes",
		Example:           "  # Resume, and wait until the nodes match the newest commit\n  plumbline resume prod-eu && plumbline reconcile prod-eu --wait",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setSuspend(cmd, kubeconfig, args, false)
		},
	}
}

// setSuspend suspends or resumes NodeSyncs, one after another.
func setSuspend(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, names []string, suspend bool) error {
	c, err := connect(cmd.Context(), kubeconfig)
	if err != nil {
		return err
	}
	word := map[bool]string{true: "suspended", false: "resumed"}[suspend]
	for _, name := range names {
		sync, err := c.nodeSync(cmd.Context(), name)
		if err != nil {
			return err
		}
		if sync.Spec.Suspend == suspend && (suspend || !sync.Spec.Drain) {
			fmt.Fprintf(cmd.ErrOrStderr(), "nodesync/%s is %s already\n", sync.Name, word)
			continue
		}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))
		if !suspend {
			patch = client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":false,"drain":false}}`))
		}
		if err := c.Patch(cmd.Context(), sync, patch); err != nil {
			return explain(err, "write NodeSync "+sync.Name)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "nodesync/%s %s\n", sync.Name, word)
	}
	return nil
}

// resting says why nothing of a NodeSync is reconciled; empty where it is.
func resting(sync *v1alpha1.NodeSync) string {
	switch {
	case sync.Spec.Suspend:
		return "suspended"
	case sync.Rests():
		return "drained"
	}
	return ""
}
