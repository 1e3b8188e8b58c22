package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/render"
)

// upgradeOptions are the flags of `plumbline upgrade`.
type upgradeOptions struct {
	from, to, channel, against string
	// kubernetes is the version of the control plane to forecast.
	kubernetes string
	write      bool
}

func newUpgradeCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	o := &upgradeOptions{}
	cmd := &cobra.Command{
		Use:   "upgrade [PATH]",
		Short: "Print the upgrade path to another version of Karpenter",
		Long: `Print the upgrade path from the version in the plumbline.yaml of a folder to another
version. The path lists the versions that Karpenter cannot skip. For each hop it lists the
requirements (Kubernetes version, IAM, chart values that were removed, manual steps), the
effect on nodes, breaking changes and changed metrics. It also prints the known defects of a
version that leave nodes or launch none, with the version that fixes them. PATH is the current
folder by default. With --from no folder is read, and removed chart values are listed whether
you use them or not.

Without --to, the target is the newest version of a channel: latest, or lts for the line with
long-term support. The command lists both, with their end of support and the Kubernetes
versions that they support: an LTS line gets no new minor version of Kubernetes.

The command needs neither a cluster nor a network, unless --against names a NodeSync. Then it
reads the NodePools in that cluster and shows for each hop and pool what happens to the
nodes: annotated again, replaced, or unknown and why.

With --write the command writes the version of the next hop into plumbline.yaml and changes
nothing else in it. Commit the file, wait until the upgrade has succeeded, and repeat.

With --kubernetes the command forecasts an upgrade of the control plane instead: whether
Karpenter supports that version and, with --against, which nodes Karpenter replaces because
the AMI alias of their EC2NodeClass resolves to another AMI, and for which aliases AWS
publishes none. For that it queries AWS with your credentials.

Exit codes: 0 nothing to do, or written; 1 refused; 2 hops remain, or with --kubernetes:
Karpenter must be upgraded first, nodes are replaced, or an alias is not available.`,
		Example: "  plumbline upgrade ./clusters/prod-eu --to " + karpenter.Newest() + ` --write
  plumbline upgrade ./clusters/prod-eu --channel lts
  plumbline upgrade ./clusters/prod-eu --against prod-eu -n plumbline-system
  plumbline upgrade ./clusters/prod-eu --against prod-eu --kubernetes 1.37
  plumbline upgrade --from 0.31.4`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: onlyFolders,
	}
	output := addOutput(cmd)
	o.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.kubernetes != "" {
			return o.runKubernetes(cmd, kubeconfig, *output, args)
		}
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

// addFlags adds the flags of the command to it.
func (o *upgradeOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.to, "to", "", "target version; default: the newest one of --channel that this plumbline knows")
	cmd.Flags().StringVar(&o.channel, "channel", karpenter.ChannelLatest, "channel of the target version: latest, or lts (long-term support)")
	cmd.Flags().StringVar(&o.from, "from", "", "current version, instead of the one in a folder")
	cmd.Flags().BoolVar(&o.write, "write", false, "write the version of the next hop into plumbline.yaml")
	cmd.Flags().StringVar(&o.against, "against", "", "show what happens to the nodes in the cluster of this NodeSync")
	cmd.Flags().StringVar(&o.kubernetes, "kubernetes", "", "forecast an upgrade of the control plane to this version, such as 1.37")
	for _, pair := range [][]string{
		{"from", "write"}, {"from", "against"}, {"to", "channel"}, {"kubernetes", "to"}, {"kubernetes", "channel"}, {"kubernetes", "write"},
	} {
		cmd.MarkFlagsMutuallyExclusive(pair...)
	}
	// The flag exists: it is added a few lines above.
	_ = cmd.RegisterFlagCompletionFunc("channel",
		cobra.FixedCompletions([]string{karpenter.ChannelLatest, karpenter.ChannelLTS}, cobra.ShellCompDirectiveNoFileComp))
}

// make finds the upgrade path, and takes its first step with --write.
func (o *upgradeOptions) make(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, args []string) (*upgradeReport, error) {
	target, err := o.target()
	if err != nil {
		return nil, err
	}
	if o.from != "" {
		if len(args) > 0 {
			return nil, errFolderAndFrom
		}
		return newUpgradeReport(o.from, target, nil)
	}
	folder := folderOf(args)
	at, err := openOnDisk(folder)
	if err != nil {
		return nil, err
	}
	git := at.karpenter
	if git.Management == render.External {
		return nil, fmt.Errorf("management is External in %s: the tool that installs Karpenter upgrades it; --from VERSION prints the upgrade path", folder)
	}
	if o.to == "" && karpenter.Newer(git.Version, target) {
		return nil, fmt.Errorf("%s has version %s, which is newer than %s, the newest version of channel %s that this plumbline knows: "+
			"choose the target with --to VERSION", folder, git.Version, target, o.channel)
	}
	report, err := newUpgradeReport(git.Version, target, at.values)
	if err != nil {
		return nil, err
	}
	for i := range report.Hops {
		report.Hops[i].Notes = append(report.Hops[i].Notes, at.clusterOnlyValues()...)
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

// errFolderAndFrom is returned if the current version is given twice.
var errFolderAndFrom = errors.New("a folder and --from cannot be combined")

// target returns the version to upgrade to.
func (o *upgradeOptions) target() (string, error) {
	if o.to != "" {
		return o.to, nil
	}
	return karpenter.ChannelVersion(o.channel)
}

// forecast computes what each hop does to the nodes of a cluster, and whether its Kubernetes version permits the hop.
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
	live, err := cluster.Live(ctx, c)
	if err != nil {
		return explain(err, "read the cluster")
	}
	if report.ClusterKubernetes, err = c.kubernetes(); err != nil {
		return err
	}
	if err := report.choose(); err != nil {
		return err
	}
	for i := range report.Hops {
		hop := &report.Hops[i]
		if err := karpenter.CheckKubernetes(report.ClusterKubernetes, hop.To); err != nil {
			hop.Notes = append(hop.Notes, "refused: "+err.Error())
		}
		u := karpenter.Upgrade{From: hop.From, To: hop.To, Old: crds}
		git := *at.karpenter
		git.Version, git.Digests = hop.To, render.Digests{} // the digests belong to another version
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

// upgradeReport is what `plumbline upgrade` prints.
type upgradeReport struct {
	From string      `json:"from"`
	To   string      `json:"to"`
	Hops []hopReport `json:"hops"`
	// Defects are the known ones of From.
	Defects []karpenter.Defect `json:"defects,omitempty"`
	// Written is the version that was written into plumbline.yaml.
	Written string `json:"written,omitempty"`
	// Support is for how long upstream supports From; nil if unknown.
	Support *karpenter.Support `json:"support,omitempty"`
	// Channels are the versions to choose from.
	Channels []karpenter.Channel `json:"channels"`
	// ClusterKubernetes is the version of the cluster's API server, if a cluster was given.
	ClusterKubernetes string `json:"clusterKubernetes,omitempty"`
	// LTSOrKubernetes describes which versions of Kubernetes exclude the channel lts; empty if none does.
	LTSOrKubernetes string `json:"ltsOrKubernetes,omitempty"`
}

// choose fills in what to know before the choice of a version.
func (r *upgradeReport) choose() error {
	support, known, err := karpenter.SupportOf(r.From)
	if err != nil {
		return err
	}
	if known {
		r.Support = &support
	}
	minor := 0
	if r.ClusterKubernetes != "" {
		if minor, err = karpenter.KubernetesMinor(r.ClusterKubernetes); err != nil {
			return err
		}
	}
	r.Channels = karpenter.Channels()
	r.LTSOrKubernetes = karpenter.EitherOr(r.Channels, minor)
	return nil
}

// hopReport is a hop, and its effect on the nodes of each pool, if a cluster was given.
type hopReport struct {
	karpenter.Hop
	Pools []poolForecast `json:"pools,omitempty"`
}

// newUpgradeReport finds the upgrade path. Of the values that a hop removes, it keeps those that are set; all of them
// if values is nil.
func newUpgradeReport(from, to string, values map[string]any) (*upgradeReport, error) {
	hops, err := karpenter.Path(from, to)
	if err != nil {
		return nil, err
	}
	report := &upgradeReport{From: from, To: to, Hops: []hopReport{}}
	if report.Defects, err = karpenter.Defects(from, true); err != nil {
		return nil, err
	}
	for _, hop := range hops {
		if err := noteDefects(&hop); err != nil {
			return nil, err
		}
		if values != nil {
			if hop.Settings, err = karpenter.Gone(values, hop.From, hop.To); err != nil {
				return nil, err
			}
		}
		report.Hops = append(report.Hops, hopReport{Hop: hop})
	}
	return report, report.choose()
}

// noteDefects adds the known defects of the version that a hop leads to.
func noteDefects(hop *karpenter.Hop) error {
	defects, err := karpenter.Defects(hop.To, true)
	for _, d := range defects {
		hop.Notes = append(hop.Notes, fmt.Sprintf("known defect of %s: %s", hop.To, d))
	}
	return err
}

// print prints the path as text.
func (r *upgradeReport) print(out io.Writer) error {
	if r.Support != nil {
		fmt.Fprintf(out, "%-8s%s: %s\n", "version", r.From, r.Support)
	}
	for _, defect := range r.Defects {
		fmt.Fprintf(out, "%-8s%s\n", "defect", defect)
	}
	printChannels(out, r.Channels, r.LTSOrKubernetes)
	fmt.Fprintln(out)
	if len(r.Hops) == 0 {
		_, err := fmt.Fprintf(out, "nothing to do: the version is %s\n", r.From)
		return err
	}
	for i, hop := range r.Hops {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s → %s\n", hop.From, hop.To)
		fmt.Fprintf(out, "  kubernetes  %s\n", hop.Kubernetes)
		printNeeds(out, "first", hop.Before)
		printNeeds(out, "iam", hop.Permissions)
		printNeeds(out, "values", hop.Settings)
		printNeeds(out, "nodes", hop.Hashes)
		printNeeds(out, "pools", hop.Pools)
		printNeeds(out, "breaking", hop.Breaking)
		printNeeds(out, "metrics", hop.Metrics)
		printNeeds(out, "note", hop.Notes)
	}
	if r.Written != "" {
		fmt.Fprintf(out, "\nwritten: version %s\n", r.Written)
		if r.Written != r.To {
			fmt.Fprintf(out, "commit it, and after it has succeeded, upgrade to %s again\n", r.To)
		}
	}
	return nil
}

// printChannels prints the versions to choose from, and which versions of Kubernetes exclude one.
func printChannels(out io.Writer, channels []karpenter.Channel, ltsOrKubernetes string) {
	for _, c := range channels {
		fmt.Fprintf(out, "%-8s%s\n", c.Name, c)
	}
	if ltsOrKubernetes != "" {
		fmt.Fprintf(out, "%-8s%s\n", "choose", ltsOrKubernetes)
	}
}

// printNeeds prints what a hop requires of one kind, one per line.
func printNeeds[T any](out io.Writer, kind string, needs []T) {
	for _, need := range needs {
		fmt.Fprintf(out, "  %-10s  %v\n", kind, need)
		kind = ""
	}
}

// upgradeForecast is the effect of a change of Karpenter's version on existing nodes.
type upgradeForecast struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Refused is why the upgrade is refused, unless the plan itself says so.
	Refused string         `json:"refused,omitempty"`
	Pools   []poolForecast `json:"pools"`
	// Warnings are what could not be examined.
	Warnings []string `json:"warnings,omitempty"`
}

// poolForecast is the forecast for one NodePool, regardless of owner: one controller manages all nodes.
type poolForecast struct {
	karpenter.Effect
	Nodes int    `json:"nodes"`
	Means string `json:"means"`
}

// String returns a line of a report.
func (p poolForecast) String() string {
	return fmt.Sprintf("%s (%s): %s", p.Pool, english.Plural(p.Nodes, "node", ""), oneLine(p.Means))
}

// forecastUpgrade returns what an upgrade does to nodes, if plumbline manages the version and it differs from the one in
// the cluster; otherwise nil. known returns the CRDs of a version whose charts are unavailable.
func forecastUpgrade(
	ctx context.Context, c client.Client, sync *v1alpha1.NodeSync, seen *review.Preview, known review.KnownCRDs,
) (*upgradeForecast, error) {
	if seen.Karpenter == nil || !upgrades(sync, seen.Karpenter) {
		return nil, nil
	}
	f := &upgradeForecast{From: sync.Status.Karpenter.Version, To: seen.Karpenter.Version}
	if err := karpenter.CheckHop(f.From, f.To); err != nil && seen.Stopped == nil && seen.ChartsRefused == nil {
		f.Refused = err.Error()
	}
	old, err := liveCRDs(ctx, c)
	if err != nil {
		return nil, err
	}
	next, err := known(f.To)
	if seen.Charts != nil {
		next, err = seen.Charts.CRDs(ctx)
	}
	next = karpenter.WithServed(next, slices.DeleteFunc(slices.Clone(old), func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return !slices.Contains(seen.ServedByEKS, crd.Name)
	}))
	if err != nil {
		f.Warnings = append(f.Warnings, noCRDs(f.To, err))
	}
	f.Pools, err = forecastPools(karpenter.Upgrade{From: f.From, To: f.To, Old: old, New: next}, seen.Live)
	return f, err
}

// upgrades reports whether Git contains another version of Karpenter than the one in use, and plumbline installs it.
func upgrades(sync *v1alpha1.NodeSync, git *render.Karpenter) bool {
	inForce := sync.Status.Karpenter
	return git.Management == render.Managed && inForce != nil && inForce.Version != "" && inForce.Version != git.Version
}

// noCRDs returns a warning about what is unknown without the CRDs of a version.
func noCRDs(version string, err error) string {
	return fmt.Sprintf("the CRDs of Karpenter %s are unavailable: definitions are validated against those of another version, and changed defaults are unknown: %v", version, err)
}

// forecastPools returns the effect on the nodes of each live NodePool, sorted by name.
func forecastPools(u karpenter.Upgrade, live plan.Live) ([]poolForecast, error) {
	u.Classes, u.Pools = live.OfKind(render.EC2NodeClass), live.OfKind(render.NodePool)
	effects, err := karpenter.Effects(u)
	if err != nil {
		return nil, err
	}
	nodes := map[string]int{}
	for i := range live.NodeClaims {
		nodes[live.NodeClaims[i].Pool]++
	}
	pools := []poolForecast{}
	for _, effect := range effects {
		pools = append(pools, poolForecast{Effect: effect, Nodes: nodes[effect.Pool], Means: effect.String()})
	}
	return pools, nil
}

// print prints a line for each pool.
func (f *upgradeForecast) print(out io.Writer) {
	fmt.Fprintf(out, "Karpenter %s → %s\n", f.From, f.To)
	if f.Refused != "" {
		fmt.Fprintln(out, "refused: "+f.Refused)
	}
	if len(f.Pools) > 0 {
		t := display.NewFittedTable(out, "POOL", "NODES", "EFFECT OF THE UPGRADE")
		for _, pool := range f.Pools {
			t.AppendRow([]any{pool.Pool, pool.Nodes, oneLine(pool.Means)})
		}
		t.Render()
	}
	for _, warning := range f.Warnings {
		fmt.Fprintln(out, "warning: "+oneLine(warning))
	}
}
