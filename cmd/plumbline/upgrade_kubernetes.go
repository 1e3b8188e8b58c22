package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// kubernetesReport is the forecast of an upgrade of the control plane, from `plumbline upgrade --kubernetes`.
type kubernetesReport struct {
	// Kubernetes is the target, such as 1.37, and ClusterKubernetes the version of the cluster; empty if no cluster was
	// given.
	Kubernetes        string `json:"kubernetes"`
	ClusterKubernetes string `json:"clusterKubernetes,omitempty"`
	// Karpenter is the version that is installed or, without a cluster, that of plumbline.yaml; empty if unknown.
	Karpenter string `json:"karpenter,omitempty"`
	// Unsupported is why that version does not work with the target, or why that is unknown; empty if it does.
	Unsupported string `json:"unsupported,omitempty"`
	// Channels are the versions of Karpenter to choose from, and LTSOrKubernetes describes which versions of Kubernetes
	// exclude the channel lts; empty if none does.
	Channels        []karpenter.Channel `json:"channels"`
	LTSOrKubernetes string              `json:"ltsOrKubernetes,omitempty"`
	// Classes are the effects on the nodes of each EC2NodeClass; nil if no cluster was given.
	Classes []plan.ClassForecast `json:"ec2NodeClasses,omitempty"`
	// Nodes is how many nodes there are, and Replaced how many of them Karpenter replaces. UpTo is true if Replaced is
	// an upper bound.
	Nodes    int  `json:"nodes"`
	Replaced int  `json:"replaced"`
	UpTo     bool `json:"upTo,omitempty"`
	// Notes are what else to know.
	Notes []string `json:"notes,omitempty"`
}

// runKubernetes forecasts an upgrade of the control plane, and prints the forecast.
func (o *upgradeOptions) runKubernetes(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, output format, args []string) error {
	report, err := o.makeKubernetes(cmd.Context(), kubeconfig, args)
	if err != nil {
		return err
	}
	if err := output.write(cmd.OutOrStdout(), report, func(out io.Writer) error { report.print(out); return nil }); err != nil {
		return err
	}
	if report.affects() {
		return &exitError{code: exitChanges}
	}
	return nil
}

// makeKubernetes finds what an upgrade of the control plane does.
func (o *upgradeOptions) makeKubernetes(
	ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, args []string,
) (*kubernetesReport, error) {
	git, err := o.inGit(args)
	if err != nil {
		return nil, err
	}
	if o.against == "" {
		report, err := newKubernetesReport(o.kubernetes, "", git.Version)
		if err == nil {
			report.Notes = append(report.Notes, "nodes were not examined: --against NODESYNC reads those of its cluster, and queries AWS")
		}
		return report, err
	}
	c, sync, err := nodeSyncOf(ctx, kubeconfig, o.against)
	if err != nil {
		return nil, err
	}
	name, region, installed := git.Cluster.Name, git.Cluster.Region, git.Version
	if k := sync.Status.Karpenter; k != nil {
		name, region, installed = k.Cluster, k.Region, cmp.Or(k.Version, git.Version)
	}
	runs, err := c.kubernetes()
	if err != nil {
		return nil, err
	}
	report, err := newKubernetesReport(o.kubernetes, runs, installed)
	if err != nil {
		return nil, err
	}
	live, err := cluster.Live(ctx, c)
	if err != nil {
		return nil, explain(err, "read the cluster")
	}
	authority, err := certificateAuthority(c.config)
	if err != nil {
		return nil, err
	}
	var answers map[render.Ref]plan.Answer
	if questions := live.AliasQuestions(); len(questions) > 0 {
		answers = queryAWS(authority, report.Kubernetes)(name, region)(ctx, questions)
	}
	report.add(live.OnKubernetes(report.Kubernetes, answers))
	return report, nil
}

// inGit returns what the plumbline.yaml of the folder contains; with --from, only the version.
func (o *upgradeOptions) inGit(args []string) (*render.Karpenter, error) {
	if o.from == "" {
		at, err := openOnDisk(folderOf(args))
		if err != nil {
			return nil, err
		}
		return at.karpenter, nil
	}
	if len(args) > 0 {
		return nil, errFolderAndFrom
	}
	return &render.Karpenter{Version: o.from}, nil
}

// newKubernetesReport returns the report without the effect on nodes. runs is the version of the API server; empty if
// unknown.
func newKubernetesReport(kubernetes, runs, installed string) (*kubernetesReport, error) {
	minor, err := karpenter.KubernetesMinor(kubernetes)
	if err != nil {
		return nil, err
	}
	r := &kubernetesReport{Kubernetes: fmt.Sprintf("1.%d", minor), Karpenter: installed, Channels: karpenter.Channels()}
	now := 0
	if runs != "" {
		if now, err = karpenter.KubernetesMinor(runs); err != nil {
			return nil, err
		}
		r.ClusterKubernetes = fmt.Sprintf("1.%d", now)
	}
	r.LTSOrKubernetes = karpenter.EitherOr(r.Channels, now)
	switch {
	case now == 0:
	case minor == now:
		r.Notes = append(r.Notes, "the cluster has this version already")
	case minor > now+1:
		r.Notes = append(r.Notes, fmt.Sprintf("EKS upgrades a control plane by one minor version at a time: 1.%d is next", now+1))
	}
	if installed == "" {
		r.Unsupported = "the version of Karpenter is unknown: set version in plumbline.yaml, or use --from VERSION"
		return r, nil
	}
	r.Unsupported, err = karpenter.KubernetesGap(installed, minor)
	return r, err
}

// add adds the effect on nodes.
func (r *kubernetesReport) add(classes []plan.ClassForecast) {
	r.Classes = classes
	for _, c := range classes {
		r.Nodes, r.Replaced, r.UpTo = r.Nodes+c.Nodes, r.Replaced+c.Replaced, r.UpTo || c.UpTo
	}
}

// affects reports whether the upgrade needs something first, or has an effect.
func (r *kubernetesReport) affects() bool {
	if r.Unsupported != "" {
		return true
	}
	for _, c := range r.Classes {
		if c.Outcome != plan.AliasStays {
			return true
		}
	}
	return false
}

// print prints the forecast as text.
func (r *kubernetesReport) print(out io.Writer) {
	from := ""
	if r.ClusterKubernetes != "" {
		from = r.ClusterKubernetes + " → "
	}
	fmt.Fprintf(out, "Kubernetes %s%s\n", from, r.Kubernetes)
	fmt.Fprintf(out, "  %-10s  %s\n", "karpenter", cmp.Or(r.Unsupported, fmt.Sprintf("%s supports it", r.Karpenter)))
	printNeeds(out, "note", r.Notes)
	fmt.Fprintln(out)
	printChannels(out, r.Channels, r.LTSOrKubernetes)
	if r.Classes == nil {
		return
	}
	fmt.Fprintln(out)
	if len(r.Classes) == 0 {
		fmt.Fprintln(out, "the cluster has no EC2NodeClass")
		return
	}
	t := display.NewFittedTable(out, "EC2NODECLASS", "ALIAS", "NODES", "REPLACED", "EFFECT")
	for _, c := range r.Classes {
		t.AppendRow([]any{c.Class, cmp.Or(c.Alias, "none"), c.Nodes, upTo(c.Replaced, c.UpTo), oneLine(c.Message)})
	}
	t.Render()
	fmt.Fprintf(out, "%s of %d nodes replaced\n", upTo(r.Replaced, r.UpTo), r.Nodes)
}

// upTo formats a number that may be an upper bound.
func upTo(n int, most bool) string {
	if most {
		return fmt.Sprintf("up to %d", n)
	}
	return fmt.Sprint(n)
}
