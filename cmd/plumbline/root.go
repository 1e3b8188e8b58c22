package main

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

func newRootCommand() *cobra.Command {
	kubeconfig := genericclioptions.NewConfigFlags(true)
	kubeconfig.CacheDir = nil // discovery is not cached on disk
	root := &cobra.Command{
		Use:   "plumbline",
		Short: "Keep a cluster's Karpenter nodes true to Git",
		Long: `plumbline keeps a cluster's Karpenter nodes true to Git: it installs Karpenter's
charts in the only safe order, applies NodePools and EC2NodeClasses, and takes
away what leaves the repository: drained, terminated and verified gone in EC2.

Exit codes: 0 done or no change, 1 error, 2 changes or drift, 3 held by the
guard, 4 stalled or timed out.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	kubeconfig.AddFlags(root.PersistentFlags())
	root.AddCommand(
		newRunCommand(kubeconfig),
		newRenderCommand(),
		newPlanCommand(kubeconfig),
		newAdoptCommand(kubeconfig),
		newUpgradeCommand(kubeconfig),
		newVendorCommand(),
		newGetCommand(kubeconfig),
		newStatusCommand(kubeconfig),
		newReconcileCommand(kubeconfig),
		newSuspendCommand(kubeconfig),
		newResumeCommand(kubeconfig),
		newVersionCommand(),
	)
	return root
}
