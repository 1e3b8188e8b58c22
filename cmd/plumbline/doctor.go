package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/preflight"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// doctor runs the checks of `plumbline doctor`.
type doctor struct {
	cluster, region, version string
	only                     []string
	// protected are the IDs of instances that plumbline protects from termination, and conflict whether the conflict about the
	// cluster's name is open, both according to the NodeSync.
	protected []string
	conflict  bool
	// dial connects to AWS in a region, with the user's credentials.
	dial func(ctx context.Context, region string) (preflight.AWS, error)
	now  func() time.Time
}

// newDoctor returns one that queries as the user.
func newDoctor() doctor {
	return doctor{now: time.Now, dial: func(ctx context.Context, region string) (preflight.AWS, error) { return dialPatiently(ctx, region) }}
}

func newDoctorCommand(kubeconfig *genericclioptions.ConfigFlags, d doctor) *cobra.Command {
	var ids []string
	for _, c := range preflight.Checks() {
		ids = append(ids, c.ID)
	}
	cmd := &cobra.Command{
		Use:   "doctor [NODESYNC]",
		Short: "Find what will disrupt a cluster's Karpenter: permissions, roles, queues, networks, pods that never drain",
		Long: `Check a cluster and its AWS account for what has caused outages with Karpenter, and print for
each check what it looked at, what it found, why that matters and how to fix it. The command
changes nothing.

The cluster's name, its region and the version of Karpenter come from the NodeSync. Without a
NodeSync, for example before the first apply, give --cluster and --region; the version is then
that of the running controller, or --version. With --version the permissions are checked for a
version to which you want to upgrade.

The checks read the cluster with your kubeconfig, and AWS with your AWS credentials. What is
denied makes a check unknown, with the missing action, and never ok. The required permissions
are in manifests/iam-policy-doctor.json; plumbline iam-policy --for plumbline --doctor prints
them. --only selects checks:
  ` + strings.Join(ids, "\n  ") + `

Exit codes: 0 every check is ok, or has only warnings; 1 an error, or a check is unknown and
none has found a problem; 2 a check has found a problem.`,
		Example: `  plumbline doctor prod-eu
  plumbline doctor --cluster prod-eu --region eu-west-1 --only controller-role,controller-reach
  plumbline doctor prod-eu --version 1.15.0 -o junit > doctor.xml`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	output := addOutput(cmd, formatJUnit, formatMarkdown)
	cmd.Flags().StringVar(&d.cluster, "cluster", "", "name of the EKS cluster, if no NodeSync has it")
	cmd.Flags().StringVar(&d.region, "region", "", "region of the cluster, with --cluster")
	cmd.Flags().StringVar(&d.version, "version", "", "version of Karpenter to check for; default: the one that is installed")
	cmd.Flags().StringSliceVar(&d.only, "only", nil, "IDs of checks to run; default: all")
	// The flag exists: it is added above.
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(ids, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := d.examine(cmd.Context(), kubeconfig, args)
		if err != nil {
			return err
		}
		if err := writeDoctor(cmd.OutOrStdout(), *output, report); err != nil {
			return err
		}
		return exitOfDoctor(report)
	}
	addWillNotDrift(cmd, kubeconfig, output)
	return cmd
}

// exitOfDoctor returns an exit code for the results.
func exitOfDoctor(report preflight.Report) error {
	switch {
	case preflight.Problems(report.Results):
		return &exitError{code: exitChanges}
	case preflight.Unanswered(report.Results):
		return &exitError{code: exitFailed, message: "plumbline: something could not be read, so it is unknown whether it is a problem"}
	}
	return nil
}

// examine reads the cluster and AWS, and runs the checks.
func (d *doctor) examine(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, args []string) (preflight.Report, error) {
	checks, err := preflight.Select(d.only)
	if err != nil {
		return preflight.Report{}, err
	}
	c, err := d.find(ctx, kubeconfig, args)
	if err != nil {
		return preflight.Report{}, err
	}
	aws, err := d.dial(ctx, d.region)
	if err != nil {
		return preflight.Report{}, err
	}
	if err := d.sameCluster(ctx, aws, c); err != nil {
		return preflight.Report{}, err
	}
	reader := &preflight.Reader{
		AWS: aws, API: c, ControllerLabels: cluster.ControllerLabels(), PlumblineLabels: daemonLabels(),
		Drains: blocker.Drains, Undisrupted: plan.Undisrupted, Allowed: allowed, NodeDaemonSets: nodeDaemonSets,
		Idle: idle, Volumes: c.volumes, KarpenterCRDs: crdsOfVersion,
		Wait: func(ctx context.Context, until time.Time) error { return pause.For(ctx, until.Sub(d.now())) },
	}
	observed := reader.Read(ctx, checks, preflight.Observed{
		Now: d.now(), Cluster: d.cluster, Region: d.region, Version: d.version, Protected: d.protected, Conflict: d.conflict,
	})
	if ctx.Err() != nil {
		return preflight.Report{}, ctx.Err()
	}
	results := preflight.Run(checks, observed)
	return preflight.Report{Cluster: d.cluster, Region: d.region, Version: observed.Version, Results: results}, nil
}

// allowed returns what the disruption budgets of a NodePool allow.
func allowed(pool *karpv1.NodePool, nodes int, reason karpv1.DisruptionReason, now time.Time) (preflight.Allowed, error) {
	found, err := plan.ExtremesOf(pool, nodes, reason, now)
	return preflight.Allowed(found), err
}

// idle returns why no pod of Karpenter's controller in a namespace works; empty if one does.
func idle(ctx context.Context, api client.Reader, namespace string, now time.Time) (string, error) {
	deployments := &appsv1.DeploymentList{}
	if err := api.List(ctx, deployments, client.InNamespace(namespace), client.MatchingLabels(cluster.ControllerLabels())); err != nil {
		return "", fmt.Errorf("list Karpenter's Deployments: %w", err)
	}
	works, err := upgrade.Alive(ctx, api, namespace, deployments.Items, now, &upgrade.Renewal{})
	if works.Ready {
		return "", err
	}
	return works.Message, err
}

// crdsOfVersion returns the CRDs of a version of Karpenter: those that this program was built with, or those of upstream's
// chart.
func crdsOfVersion(ctx context.Context, version string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	limited, stop := context.WithTimeout(ctx, pullTime)
	defer stop()
	return crdsOf(limited, &render.Karpenter{Version: version, Repository: render.DefaultRepository}, "", &render.Snapshot{})
}

// nodeDaemonSets returns the DaemonSets of CSI drivers and CNI plugins.
func nodeDaemonSets(all []appsv1.DaemonSet, drivers []string) []preflight.NodeDaemonSet {
	var sets []preflight.NodeDaemonSet
	for _, d := range plan.NodeDaemonSets(all, drivers) {
		sets = append(sets, preflight.NodeDaemonSet{Name: d.String(), Tolerates: d.Tolerates, Patch: d.Patch()})
	}
	return sets
}

// find connects to the cluster, and takes the names from the flags or from a NodeSync.
func (d *doctor) find(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, args []string) (*clusterAccess, error) {
	switch {
	case d.cluster == "" && d.region != "":
		return nil, errors.New("--region needs --cluster: the region of a NodeSync is known")
	case d.cluster != "" && len(args) > 0:
		return nil, errors.New("a NodeSync and --cluster cannot be combined")
	case d.cluster != "" && d.region == "":
		return nil, errors.New("--cluster needs --region: give the region of the cluster")
	}
	c, err := connect(ctx, kubeconfig)
	if err != nil || d.cluster != "" {
		return c, err
	}
	sync, err := c.oneNodeSync(ctx, args)
	if err != nil {
		return nil, err
	}
	d.protected, d.conflict = sync.Status.IdentityConflict.GetResponse().Protected, sync.Status.IdentityConflict.Open()
	k := sync.Status.Karpenter
	if k == nil || k.Cluster == "" || k.Region == "" {
		return nil, fmt.Errorf("nodesync/%s does not have the cluster's name yet: give --cluster and --region", sync.Name)
	}
	d.cluster, d.region = k.Cluster, k.Region
	if d.version == "" {
		d.version = k.Version
	}
	return c, nil
}

// sameCluster returns an error if the EKS cluster of the name is another one than that of the API server. If AWS does not
// answer, the checks report it.
func (d *doctor) sameCluster(ctx context.Context, aws preflight.AWS, c *clusterAccess) error {
	authority, err := certificateAuthority(c.config)
	if err != nil {
		return err
	}
	found, err := aws.Cluster(ctx, d.cluster)
	if err != nil {
		return nil //nolint:nilerr // the checks report it
	}
	if verdict := cloud.Verify(found, authority, nil, nil); verdict.Reason == cloud.ReasonAuthorityDiffers {
		return errors.New(verdict.Message)
	}
	return nil
}

// writeDoctor prints a report in the format of -o.
func writeDoctor(out io.Writer, output format, report preflight.Report) error {
	switch output {
	case formatJUnit:
		return writeJUnit(out, report.JUnit)
	case formatMarkdown:
		return report.WriteMarkdown(&display.Visible{Writer: out})
	default:
	}
	return output.write(out, report, func(out io.Writer) error {
		printDoctor(out, report)
		return nil
	})
}

// printDoctor prints a row for each check, and then each finding in full.
func printDoctor(out io.Writer, report preflight.Report) {
	fmt.Fprintf(out, "cluster %s in %s, Karpenter %s\n\n", report.Cluster, report.Region, orNone(report.Version))
	t := display.NewFittedTable(out, "CHECK", "STATUS", "LOOKED AT")
	for _, r := range report.Results {
		t.AppendRow([]any{r.Check, string(r.Status), redact.VisibleName(r.Looked)})
	}
	t.Render()
	for _, r := range report.Results {
		if len(r.Findings) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s\n", r.Check)
		for _, f := range r.Findings {
			fmt.Fprintf(out, "  %s: %s\n", f.Status, redact.Visible(f.Message))
			if f.Fix != "" {
				fmt.Fprintf(out, "    fix: %s\n", strings.ReplaceAll(redact.Visible(f.Fix), "\n", "\n    "))
			}
		}
		fmt.Fprintf(out, "  why: %s (%s)\n", r.Why, r.Docs)
	}
}
