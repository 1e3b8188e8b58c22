package main

import (
	"fmt"
	"io"
	"strings"

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

Commands that speak to a cluster take the flags of kubectl, such as --context,
--kubeconfig and -n; without -n they find the namespace of the daemon.

Exit codes: 0 done or no change, 1 error, 2 changes or drift, 3 held by the
guard, 4 stalled or timed out.`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("plumbline {{.Version}}\n")
	kubeconfig.AddFlags(root.PersistentFlags())
	completeKubeconfig(root, kubeconfig)
	usage := root.UsageTemplate()
	root.SetUsageTemplate(withoutClusterFlags(usage))
	for _, cmd := range newClusterCommands(kubeconfig) {
		cmd.SetUsageTemplate(strings.Replace(usage, "Global Flags:", "Cluster Flags (those of kubectl):", 1))
		root.AddCommand(cmd)
	}
	root.AddCommand(newRenderCommand(), newVendorCommand(), newVersionCommand(), newReferenceCommand())
	for _, cmd := range root.Commands() {
		sayUsage(cmd)
		addQuiet(cmd)
	}
	root.InitDefaultVersionFlag()
	showBoolsPlainly(root)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		showBoolsPlainly(cmd) // those that cobra adds as it runs
		help(cmd, args)
	})
	return root
}

// newClusterCommands are the commands that take kubectl's flags.
func newClusterCommands(kubeconfig *genericclioptions.ConfigFlags) []*cobra.Command {
	return []*cobra.Command{
		newRunCommand(kubeconfig),
		newPlanCommand(kubeconfig),
		newDiffCommand(kubeconfig),
		newSnapshotCommand(kubeconfig),
		newAdoptCommand(kubeconfig),
		newUpgradeCommand(kubeconfig),
		newGetCommand(kubeconfig),
		newStatusCommand(kubeconfig),
		newTreeCommand(kubeconfig),
		newOwnersCommand(kubeconfig),
		newDriftCommand(kubeconfig),
		newEventsCommand(kubeconfig),
		newWhyCommand(kubeconfig),
		newHistoryCommand(kubeconfig),
		newTeardownCommand(kubeconfig, byUser(), startStandIn),
		newVerifyCommand(kubeconfig, byUser()),
		newLogsCommand(kubeconfig),
		newReconcileCommand(kubeconfig),
		newSuspendCommand(kubeconfig),
		newResumeCommand(kubeconfig),
		newResumeRolloutCommand(kubeconfig),
		newApproveCommand(kubeconfig),
		newCalendarCommand(kubeconfig),
		newEmergencyCommand(kubeconfig),
	}
}

// addQuiet gives a command the flag --quiet.
func addQuiet(cmd *cobra.Command) {
	run := cmd.RunE
	if run == nil || cmd.Name() == "run" {
		return // the daemon logs
	}
	quiet := cmd.Flags().BoolP("quiet", "q", false, "print nothing on stderr but errors")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *quiet {
			cmd.SetErr(io.Discard)
		}
		return run(cmd, args)
	}
}

// sayUsage has a command that is called wrongly say how it is called.
func sayUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd: cmd, err: err} })
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{cmd: cmd, err: err}
			}
			return nil
		}
	}
}

// withoutClusterFlags is the form of the help of a command that asks no cluster: the flags of kubectl
// are root's, and are left out.
func withoutClusterFlags(usage string) string {
	before, after, _ := strings.Cut(strings.ReplaceAll(usage, ".LocalFlags.", ".LocalNonPersistentFlags."), "{{if .HasAvailableInheritedFlags}}")
	_, after, _ = strings.Cut(after, "{{end}}")
	return before + after
}

// usageError says how a command is called that was called otherwise.
type usageError struct {
	cmd *cobra.Command
	err error
}

// Error is what is wrong, and the line that would be right.
func (e *usageError) Error() string {
	return fmt.Sprintf("%v\nUsage: %s\n`%s --help` has more", e.err, e.cmd.UseLine(), e.cmd.CommandPath())
}

// Unwrap returns what is wrong.
func (e *usageError) Unwrap() error { return e.err }
