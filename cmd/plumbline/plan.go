package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// planOptions are the flags of `plumbline plan`.
type planOptions struct {
	crds, against string
	// exitCode says that the exit code tells what would change.
	exitCode bool
	// aws asks AWS what selectors come to.
	aws    bool
	whatIf whatIfOptions
}

func newPlanCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	o := &planOptions{}
	cmd := &cobra.Command{
		Use:   "plan PATH|NODESYNC",
		Short: "Show what a folder or a NodeSync would change",
		Long: `Show what would change, and what it would do to nodes, and change nothing.

With a PATH, a folder of a checkout, the comparison is with nothing: everything
arrives, and neither values of the chart nor effects on nodes are known. With
--against NODESYNC it is with that NodeSync's cluster: what a push of this folder
would do. With the name of a NodeSync, the revision
that its source has now is fetched and compared. Where that changes Karpenter's
version, it says of each pool what the upgrade does to its nodes. The CRDs of a version
other than ` + embeddedVersion() + ` are those of its chart; where it cannot be pulled, the output says so.

Which nodes a change of AMIs, subnets, security groups or capacity reservations
replaces, AWS has to say. The daemon asks it with its own rights; this command does
so with --aws, by the credentials of the environment, and says "up to" so many nodes
without.

The steps are the daemon's, in its order. Where the daemon would do nothing of
the commit (another cluster's name, what spec.charts.allow does not allow, a
definition that is not valid), the reason is printed and no change. Where it
would refuse only the change of the charts, that is printed first, and then what
it does under the Karpenter that is in force.

With --what-if Karpenter's own scheduling is simulated with all nodes that the change
ends gone at once: pods that move, pods with nowhere to go and why, nodes that would be
launched, and list prices before and after. It reads nodes and pods of the cluster, or with
--snapshot a file of plumbline snapshot, and the instance types of the region, with --aws.
A removal whose pods find no place is held then, as the daemon holds it.

Exit codes: 0 no change, 1 error, 2 changes, 3 held by the guard.`,
		Example: "  plumbline plan ./clusters/prod-eu --against prod-eu -n plumbline-system\n  plumbline plan prod-eu -n plumbline-system\n  plumbline plan ./clusters/prod-eu --what-if --snapshot prod-eu.json.gz",
		Args:    cobra.ExactArgs(1),
	}
	output := addOutput(cmd, formatMarkdown)
	o.addFlags(cmd, kubeconfig)
	cmd.Flags().BoolVar(&o.aws, "aws", false, "ask AWS, with your own credentials, which AMIs, subnets, security groups and reservations the selectors of an EC2NodeClass match, and for --what-if the instance types of its region")
	o.whatIf.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		made, err := o.make(cmd.Context(), kubeconfig, args[0])
		if err != nil {
			return err
		}
		report := newPlanReport(made)
		people := report.print
		if *output == formatMarkdown {
			people = report.printMarkdown
		}
		if err := output.write(cmd.OutOrStdout(), report, people); err != nil {
			return err
		}
		return o.exit(report)
	}
	return cmd
}

// addFlags gives a command the flags that say what is compared with what.
func (o *planOptions) addFlags(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags) {
	cmd.Flags().StringVar(&o.crds, "crds", "", "folder with the CRDs of the version in Git, where it is not "+embeddedVersion()+" and its charts are out of reach")
	cmd.Flags().StringVar(&o.against, "against", "", "compare the folder with the cluster of this NodeSync")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", true, "end with 2 or 3 where something would change or is held; with =false only errors end it with more than 0")
	cmd.ValidArgsFunction = completeFolders(completeNodeSyncs(kubeconfig, 1))
	// The flag exists: it was added a few lines above.
	_ = cmd.RegisterFlagCompletionFunc("against", func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeNodeSyncs(kubeconfig, 1)(cmd, nil, typed)
	})
}

// exit says by the exit code what the Plan would do, unless only errors are asked for.
func (o *planOptions) exit(report planReport) error {
	err := report.exit()
	var exit *exitError
	if !o.exitCode && errors.As(err, &exit) && exit.code != exitFailed {
		return nil
	}
	return err
}

// make decides by the argument: a folder on disk, or a NodeSync.
func (o *planOptions) make(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, of string) (*planned, error) {
	info, err := os.Stat(of)
	isFolder := err == nil && info.IsDir()
	if _, err := nameOf(of); !isFolder && err != nil {
		return nil, fmt.Errorf("%s is not a folder, and no name of a NodeSync", of)
	}
	if err := o.whatIf.check(of, isFolder, o.against); err != nil {
		return nil, err
	}
	if o.whatIf.snapshot != "" {
		return o.planSnapshot(ctx, of)
	}
	if !isFolder && o.against != "" {
		return nil, fmt.Errorf("%s is not a folder: --against compares a folder with the cluster of a NodeSync", of)
	}
	if !isFolder {
		return o.planNodeSync(ctx, kubeconfig, of)
	}
	if o.against != "" {
		return o.planFolder(ctx, kubeconfig, of)
	}
	r, err := renderFolder(ctx, of, o.crds, true)
	if err != nil {
		return nil, err
	}
	made, err := plan.Make(ctx, r.set, plan.Live{}, plan.Policy{Offline: true, NewRevision: true}, r.schema)
	if err != nil {
		return nil, err
	}
	made.Warnings = append(made.Warnings, r.set.Warnings...)
	if r.unchecked != "" {
		made.Warnings = append(made.Warnings, r.unchecked)
	}
	return &planned{Plan: made, offline: true}, nil
}

// embeddedVersion is the version of Karpenter that this program was built with.
func embeddedVersion() string {
	_, version, err := schema.Embedded()
	if err != nil {
		return "unknown"
	}
	return version
}

// exit says by the exit code what the Plan would do.
func (r planReport) exit() error {
	switch {
	case r.Refused > 0, r.Stopped != "", r.ChartsRefused != "", r.Adoption != nil && !r.Adoption.asked(), r.Upgrade != nil && r.Upgrade.Refused != "":
		return &exitError{code: exitFailed}
	case r.Held > 0:
		return &exitError{code: exitHeld}
	case len(r.Changes)+len(r.Removals) > 0, r.Upgrade != nil, r.Adoption != nil, r.Charts != "":
		return &exitError{code: exitChanges}
	}
	return nil
}

// planReport is what `plumbline plan` prints: the Plan as policies see it, and what else is known of
// the commit.
type planReport struct {
	planjson.Plan
	// Offline says that the comparison is with nothing: effects on nodes are not known.
	Offline bool `json:"offline,omitempty"`
	// Pace is how fast Karpenter may replace the nodes that the changes outdate, by NodePool.
	Pace []paceReport `json:"pace,omitempty"`
	// Pods are those on the nodes that a change or a removal touches, by its object.
	Pods []podsReport `json:"pods,omitempty"`
	// Upgrade is what a change of Karpenter's version does to nodes.
	Upgrade *upgradeForecast `json:"upgrade,omitempty"`
	// Adoption is what other tools have installed of Karpenter, and what comes of it.
	Adoption *adoptReport `json:"adoption,omitempty"`
	Warnings []string     `json:"warnings,omitempty"`
	// WhatIf is where pods would go, where that was asked for.
	WhatIf *whatIfReport `json:"whatIf,omitempty"`
	// Stopped is why the daemon does nothing of the commit. Waits says that it goes on by
	// itself once what it names is there.
	Stopped string `json:"stopped,omitempty"`
	Waits   bool   `json:"waits,omitempty"`
	// Charts is what the daemon does with the charts; empty where nothing.
	Charts string `json:"charts,omitempty"`
	// ChartsRefused is why the daemon leaves the charts as they are; it applies the
	// definitions all the same.
	ChartsRefused string `json:"chartsRefused,omitempty"`
	Digest        string `json:"digest"`
	// Approve is the digest by which people may approve what is held, and Approval says how; empty
	// where nothing of it can be approved.
	Approve  string `json:"approve,omitempty"`
	Approval string `json:"approval,omitempty"`
	Held     int    `json:"held"`
	Refused  int    `json:"refused"`
}

func newPlanReport(p *planned) planReport {
	r := planReport{Plan: p.Document(p.live), Offline: p.offline, Upgrade: p.upgrade, Adoption: p.adoption, Warnings: p.Warnings, Stopped: p.stopped, Waits: p.waits, Charts: p.charts, ChartsRefused: p.chartsRefused, Digest: p.Digest}
	for _, c := range p.Changes {
		r.Warnings = append(r.Warnings, c.Warnings...)
		if c.Err != nil {
			r.Refused++
		}
		if c.Action == plan.Hold {
			r.Held++
		}
	}
	if p.Frozen.Message != "" && len(p.Removals) > 0 {
		r.Warnings = append(r.Warnings, "removals wait: "+p.Frozen.Message)
	}
	r.Approve, r.Approval = p.approve, p.approval
	r.Pace, r.Pods, r.WhatIf = p.paces(), p.pods, p.whatIf
	for _, c := range p.Removals {
		if c.Held {
			r.Held++
		}
	}
	return r
}
