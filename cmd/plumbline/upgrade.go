package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// upgradeOptions are the flags of `plumbline upgrade`.
type upgradeOptions struct {
	from, to, against string
	write             bool
	// chosen says that --to was given.
	chosen bool
}

func newUpgradeCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	o := &upgradeOptions{}
	cmd := &cobra.Command{
		Use:   "upgrade [PATH]",
		Short: "Print the way to another version of Karpenter, hop by hop",
		Long: `Print the way from the version in the plumbline.yaml of a folder to another
one, hop by hop: which versions to stop at, because Karpenter cannot skip them,
and what each hop needs: Kubernetes, IAM, values that are gone, what is to be
done first, and what it does to nodes. PATH is the current folder by default.
With --from no folder is read, and values that are gone are named whether they
are used or not. Neither a cluster nor a network is asked, unless --against names
a NodeSync: then the NodePools in its cluster are looked at, and each hop says of
each of them what happens to its nodes: annotated again, replaced, or why that
cannot be known.

With --write the version of the next hop is written into plumbline.yaml, every
other byte stays as it is. Commit it, wait until it has succeeded, go on.

Exit codes: 0 nothing to do, or written; 1 refused; 2 there is a way to go.`,
		Example:           "  plumbline upgrade ./clusters/prod-eu --to " + karpenter.Newest() + " --write\n  plumbline upgrade ./clusters/prod-eu --against prod-eu -n plumbline-system\n  plumbline upgrade --from 0.31.4",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: onlyFolders,
	}
	output := addOutput(cmd)
	cmd.Flags().StringVar(&o.to, "to", karpenter.Newest(), "the version to go to; by default the newest that is known here")
	cmd.Flags().StringVar(&o.from, "from", "", "the version to go from, instead of that of a folder")
	cmd.Flags().BoolVar(&o.write, "write", false, "write the version of the next hop into plumbline.yaml")
	cmd.Flags().StringVar(&o.against, "against", "", "say what becomes of the nodes in the cluster of this NodeSync")
	cmd.MarkFlagsMutuallyExclusive("from", "write")
	cmd.MarkFlagsMutuallyExclusive("from", "against")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.chosen = cmd.Flags().Changed("to")
		report, err := o.make(cmd.Context(), kubeconfig, args)
		if err != nil {
			return err
		}
		if err := output.write(cmd.OutOrStdout(), report, func(out io.Writer) error { return report.print(out) }); err != nil {
			return err
		}
		if len(report.Hops) > 0 && report.Written == "" {
			return &exitError{code: exitChanges}
		}
		return nil
	}
	return cmd
}

// make finds the way, and takes its first step where that is asked for.
func (o *upgradeOptions) make(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, args []string) (*upgradeReport, error) {
	if o.from != "" {
		if len(args) > 0 {
			return nil, errors.New("a folder and --from do not go together")
		}
		return newUpgradeReport(o.from, o.to, nil)
	}
	folder := folderOf(args)
	at, err := openOnDisk(folder)
	if err != nil {
		return nil, err
	}
	git := at.karpenter
	if git.Management == render.External {
		return nil, fmt.Errorf("management is External in %s: the tool that installs Karpenter upgrades it; --from VERSION prints the way", folder)
	}
	if !o.chosen && karpenter.Newer(git.Version, o.to) {
		return nil, fmt.Errorf("%s has version %s, and the newest that is known here is %s: give --to VERSION to go there, or back", folder, git.Version, o.to)
	}
	report, err := newUpgradeReport(git.Version, o.to, at.values)
	if err != nil {
		return nil, err
	}
	for i := range report.Hops {
		report.Hops[i].Notes = append(report.Hops[i].Notes, at.unknown()...)
	}
	if o.against != "" {
		err = o.forecast(ctx, kubeconfig, at, report)
	}
	if err != nil || !o.write || len(report.Hops) == 0 {
		return report, err
	}
	report.Written = report.Hops[0].To
	return report, writeVersion(filepath.Join(folder, render.FileName), report.Written)
}

// forecast asks a cluster what each hop does to its nodes.
func (o *upgradeOptions) forecast(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, at *onDisk, report *upgradeReport) error {
	c, err := connect(ctx, kubeconfig)
	if err != nil {
		return err
	}
	if _, err := c.nodeSync(ctx, o.against); err != nil {
		return err
	}
	crds, err := liveCRDs(ctx, c)
	if err != nil {
		return err
	}
	live, err := observe.Live(ctx, c)
	if err != nil {
		return explain(err, "read what lives")
	}
	for i := range report.Hops {
		hop := &report.Hops[i]
		u := karpenter.Upgrade{From: hop.From, To: hop.To, Old: crds}
		git := *at.karpenter
		git.Version, git.Digests = hop.To, render.Digests{} // the pins are another version's
		if crds, err = crdsOf(ctx, &git, at.name, at.snapshot); err != nil {
			hop.Notes = append(hop.Notes, noCRDs(hop.To, err))
		}
		u.New = crds
		if hop.Pools, err = forecastPools(u, live); err != nil {
			return err
		}
	}
	return nil
}

// writeVersion edits a plumbline.yaml in place.
func writeVersion(file, version string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("edit %s: %w", file, err)
	}
	edited, err := render.SetVersion(file, data, version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, edited, 0o644); err != nil {
		return fmt.Errorf("edit %s: %w", file, err)
	}
	return nil
}
