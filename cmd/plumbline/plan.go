package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// planOptions are the flags of `plumbline plan`.
type planOptions struct {
	crds, against string
	// exitCode makes the exit code tell what would change.
	exitCode bool
	// aws queries AWS for what selectors resolve to.
	aws    bool
	whatIf whatIfOptions
}

func newPlanCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	o := &planOptions{}
	cmd := &cobra.Command{
		Use:   "plan PATH|NODESYNC",
		Short: "Show what a folder or a NodeSync would change",
		Long: `Show what would change, and what it would do to nodes, and change nothing.

With a PATH, a folder of a checkout, the folder is compared with an empty cluster:
every object is created, and chart values and effects on nodes are unknown. Add
--against NODESYNC to compare it with that NodeSync's cluster: the plan then shows what
a push of this folder would do. With the name of a NodeSync, the command fetches the
current revision of its source and compares that. If the revision changes Karpenter's
version, the plan shows what the upgrade does to the nodes of each pool. The CRDs of a
version other than ` + schema.EmbeddedVersion + ` and ` + schema.LTSVersion + ` come from its chart; if the chart cannot be
pulled, the output says so.

Only AWS knows which nodes a change of AMIs, subnets, security groups or capacity
reservations replaces. The daemon queries AWS with its own permissions. This command
does so with --aws, with the credentials of the environment; without --aws it prints
"up to" and the highest possible number of nodes.

The plan lists the daemon's steps in the daemon's order. If the daemon would refuse the
whole commit (the name of another cluster, a chart that spec.charts.allow does not allow,
an invalid definition), the command prints the reason and no changes. If it would refuse
only the change of the charts, the command prints that first, and then the changes
under the current Karpenter version.

With --what-if the command runs Karpenter's scheduling simulation as if all nodes that the
change terminates were gone at once. It shows which pods move, which pods become
unschedulable and why, which nodes would be launched, and list prices before and after. It
reads nodes and pods from the cluster, or with --snapshot from a file of plumbline snapshot,
and with --aws the instance types of the region. As in the daemon, a removal whose pods
would be unschedulable is then held.

Exit codes: 0 no change, 1 error, 2 changes, 3 held by the guard.`,
		Example: "  plumbline plan ./clusters/prod-eu --against prod-eu -n plumbline-system\n  plumbline plan prod-eu -n plumbline-system\n  plumbline plan ./clusters/prod-eu --what-if --snapshot prod-eu.json.gz",
		Args:    cobra.ExactArgs(1),
	}
	output := addOutput(cmd, formatMarkdown)
	o.addFlags(cmd, kubeconfig)
	cmd.Flags().BoolVar(&o.aws, "aws", false, "query AWS with your own credentials for the AMIs, subnets, security groups and reservations that the selectors of an EC2NodeClass match, and for --what-if the instance types of its region")
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

// addFlags adds the flags that select what to compare.
func (o *planOptions) addFlags(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags) {
	cmd.Flags().StringVar(&o.crds, "crds", "",
		"folder with the CRDs of the version in Git, if it is neither "+schema.EmbeddedVersion+" nor "+schema.LTSVersion+" and its charts cannot be pulled")
	cmd.Flags().StringVar(&o.against, "against", "", "compare the folder with the cluster of this NodeSync")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", true,
		"exit with code 2 if something would change and 3 if something is held; with =false only errors give a code above 0")
	cmd.ValidArgsFunction = completeFolders(completeNodeSyncs(kubeconfig, 1))
	// The flag exists: it is added a few lines above.
	_ = cmd.RegisterFlagCompletionFunc("against", func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeNodeSyncs(kubeconfig, 1)(cmd, nil, typed)
	})
}

// exit returns an exit code that tells what the Plan would do, with --exit-code.
func (o *planOptions) exit(report planReport) error {
	err := report.exit()
	var exit *exitError
	if !o.exitCode && errors.As(err, &exit) && exit.code != exitFailed {
		return nil
	}
	return err
}

// make plans a folder on disk or a NodeSync, depending on the argument.
func (o *planOptions) make(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, of string) (*planned, error) {
	info, err := os.Stat(of)
	isFolder := err == nil && info.IsDir()
	if _, err := nameOf(of); !isFolder && err != nil {
		return nil, fmt.Errorf("%s is neither a folder nor a valid name of a NodeSync", of)
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

// exit returns an exit code that tells what the Plan would do.
func (r planReport) exit() error {
	switch {
	case r.Refused > 0, r.Stopped != "", r.ChartsRefused != "", r.Adoption != nil && !r.Adoption.Asked(), r.Upgrade != nil && r.Upgrade.Refused != "":
		return &exitError{code: exitFailed}
	case r.Held > 0:
		return &exitError{code: exitHeld}
	case len(r.Changes)+len(r.Removals) > 0, r.Upgrade != nil, r.Adoption != nil, r.Charts != "":
		return &exitError{code: exitChanges}
	}
	return nil
}

// planReport is what `plumbline plan` prints: the Plan as policies see it, and further information about the commit.
type planReport struct {
	planjson.Plan
	// Offline is true if the folder is not compared with a cluster: effects on nodes are unknown.
	Offline bool `json:"offline,omitempty"`
	// Pace is how fast Karpenter may replace the nodes that the changes outdate, by NodePool.
	Pace []review.Pace `json:"pace,omitempty"`
	// Pods are those on the nodes that a change or removal affects, by object.
	Pods []review.Pods `json:"pods,omitempty"`
	// Upgrade is the effect of a change of Karpenter's version on nodes.
	Upgrade *upgradeForecast `json:"upgrade,omitempty"`
	// Adoption lists the Karpenter objects that other tools have installed, and what plumbline does with them.
	Adoption *upgrade.Adoption `json:"adoption,omitempty"`
	// Rights are the AWS permissions that an upgrade of Karpenter adds.
	Rights *upgrade.Rights `json:"permissions,omitempty"`
	// AutoMode describes whose the NodePools are, in a cluster with EKS Auto Mode.
	AutoMode string   `json:"autoMode,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// WhatIf is where pods would be scheduled, with --what-if.
	WhatIf *whatIfReport `json:"whatIf,omitempty"`
	// Stopped is why the daemon does not apply the commit. Waits is true if the daemon continues without a person once
	// the cause is gone.
	Stopped string `json:"stopped,omitempty"`
	Waits   bool   `json:"waits,omitempty"`
	// Charts is what the daemon does with the charts; empty if nothing.
	Charts string `json:"charts,omitempty"`
	// ChartsRefused is why the daemon does not change the charts; it applies the definitions regardless.
	ChartsRefused string `json:"chartsRefused,omitempty"`
	Digest        string `json:"digest"`
	// Approve is the digest to approve what is held, and Approval the instructions; empty if none of it can be
	// approved.
	Approve  string `json:"approve,omitempty"`
	Approval string `json:"approval,omitempty"`
	Held     int    `json:"held"`
	Refused  int    `json:"refused"`
}

func newPlanReport(p *planned) planReport {
	r := planReport{
		Plan: p.Document(p.live), Offline: p.offline, Upgrade: p.upgrade, Adoption: p.adoption, AutoMode: p.autoMode, Rights: p.rights,
		Warnings: p.Warnings, Stopped: p.stopped, Waits: p.waits, Charts: p.charts, ChartsRefused: p.chartsRefused, Digest: p.Digest,
	}
	r.Held, r.Refused = review.Counts(p.Plan)
	for _, c := range p.Changes {
		r.Warnings = append(r.Warnings, c.Warnings...)
	}
	if p.Frozen.Message != "" && len(p.Removals) > 0 {
		r.Warnings = append(r.Warnings, "removals wait: "+p.Frozen.Message)
	}
	r.Approve, r.Approval = p.approve, p.approval
	r.Pace = review.Paces(p.Plan, p.live, p.removal, plan.Unlaunchable(p.noInstanceType(), p.nodeLimits), time.Now())
	review.AddWaves(r.Pace, p.rollout)
	r.Pods, r.WhatIf = p.pods, p.whatIf
	return r
}

const (
	// notQueried is why the plan does not contain AWS's results.
	notQueried = "AWS was not queried; use --aws to query it with your credentials"
	// awsTimeout limits the time to wait for AWS.
	awsTimeout = 30 * time.Second
)

// queryAWS returns a function that queries AWS, with the user's credentials, for what selectors resolve to. They must
// belong to the account with the cluster whose certificate authority the kubeconfig contains. kubernetes is the version
// of Kubernetes to resolve aliases for; if empty, that of the cluster.
func queryAWS(authority []byte, kubernetes string) func(cluster, region string) plan.Ask {
	return queryWith(dialAsUser, authority, kubernetes)
}

// dialAsUser returns a client with the user's credentials.
func dialAsUser(ctx context.Context, region string) (account.Cloud, error) {
	return cloud.New(ctx, cloud.Options{Region: region, UserAgent: "plumbline-cli/" + version})
}

// queryWith queries AWS with a client, whose account must contain the cluster. kubernetes is as in queryAWS.
func queryWith(dial account.Dialer, authority []byte, kubernetes string) func(cluster, region string) plan.Ask {
	return func(cluster, region string) plan.Ask {
		return func(ctx context.Context, questions []plan.Question) map[render.Ref]plan.Answer {
			step := &account.Resolution{Cluster: cluster, Timeout: awsTimeout}
			aws, err := dial(ctx, region)
			if err == nil {
				step.Cloud = func(context.Context) (account.ResolutionCloud, error) { return aws, nil }
				step.Kubernetes, err = confirm(ctx, aws, cluster, authority)
				step.Kubernetes = cmp.Or(kubernetes, step.Kubernetes)
			}
			if err != nil {
				step.Unverified = err.Error()
			}
			return step.Answers(ctx, questions)
		}
	}
}

// nextKubernetes returns a function that finds the version of Kubernetes after that of a cluster, and queries AWS with it.
func nextKubernetes(
	dial account.Dialer, authority []byte,
) func(ctx context.Context, cluster, region string) (kubernetes string, ask plan.Ask, err error) {
	return func(ctx context.Context, cluster, region string) (string, plan.Ask, error) {
		ctx, cancel := context.WithTimeout(ctx, awsTimeout)
		defer cancel()
		aws, err := dial(ctx, region)
		if err != nil {
			return "", nil, err
		}
		now, err := confirm(ctx, aws, cluster, authority)
		if err != nil {
			return "", nil, err
		}
		minor, err := karpenter.KubernetesMinor(now)
		if err != nil {
			return "", nil, err
		}
		next := fmt.Sprintf("1.%d", minor+1)
		return next, queryWith(dial, authority, next)(cluster, region), nil
	}
}

// confirm checks that the AWS account contains this very cluster, and returns the cluster's Kubernetes version.
func confirm(ctx context.Context, aws account.Cloud, cluster string, authority []byte) (kubernetes string, err error) {
	found, err := aws.Cluster(ctx, cluster)
	if err != nil {
		return "", err
	}
	if verdict := cloud.Verify(found, authority, nil, nil); !verdict.OK {
		return "", errors.New(verdict.Message)
	}
	return found.Version, nil
}

// planNodeSync fetches the current revision of a NodeSync's source, and plans it.
func (o *planOptions) planNodeSync(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, name string) (*planned, error) {
	c, sync, err := nodeSyncOf(ctx, kubeconfig, name)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "plumbline-plan-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the fetch: %w", err)
	}
	defer os.RemoveAll(dir)
	snapshot, err := fetchFor(ctx, c, sync, dir)
	if err != nil {
		return nil, err
	}
	return o.planCommit(ctx, c, sync, snapshot)
}

// planFolder plans a folder on disk as if it were committed.
func (o *planOptions) planFolder(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, folder string) (*planned, error) {
	root, name, err := repositoryOf(folder)
	if err != nil {
		return nil, err
	}
	if err := hasCluster(folder); err != nil {
		return nil, err
	}
	snapshot, err := source.Folder(root)
	if err != nil {
		return nil, err
	}
	snapshot.Revision = "folder"
	c, sync, err := nodeSyncOf(ctx, kubeconfig, o.against)
	if err != nil {
		return nil, err
	}
	sync.Spec.Path = name
	whole, err := o.planCommit(ctx, c, sync, snapshot)
	if err != nil {
		return nil, err
	}
	whole.Warnings = append(whole.Warnings, untracked(root, name)...)
	return whole, nil
}

func nodeSyncOf(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, name string) (*clusterAccess, *v1alpha1.NodeSync, error) {
	c, err := connect(ctx, kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	sync, err := c.nodeSync(ctx, name)
	return c, sync, err
}

func fetchFor(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync, dir string) (*render.Snapshot, error) {
	git := sync.Spec.Source.Git
	if git == nil {
		return artifactFor(ctx, c, sync, dir)
	}
	request := source.Request{Key: sync.Namespace + "/" + sync.Name, URL: git.URL, Ref: git.Ref, Path: sync.Spec.Path}
	if git.SecretRef != nil {
		secret := &corev1.Secret{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: sync.Namespace, Name: git.SecretRef.Name}, secret); err != nil {
			return nil, explain(err, "read secret "+git.SecretRef.Name)
		}
		// The user reads the Secret with their own permissions, so a Secret without annotations is allowed.
		own := grant.Policy{Unannotated: true}
		if err := own.Check(secret, grant.Use{NodeSync: sync.Name, Address: git.URL}); err != nil {
			return nil, err
		}
		credentials, err := source.CredentialsFromSecret(secret.Data)
		if err != nil {
			return nil, fmt.Errorf("read secret %s: %w", git.SecretRef.Name, err)
		}
		request.Credentials = credentials
	}
	snapshot, _, err := source.NewGit(source.Options{Dir: dir}).Fetch(ctx, request)
	return snapshot, err
}

// artifactFor reads Flux's artifact, if source-controller is reachable from here: its address is inside the cluster.
func artifactFor(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync, dir string) (*render.Snapshot, error) {
	ref := sync.SourceRef()
	sources := &source.FluxSources{Reader: c, Namespaces: []string{ref.Namespace}}
	a, err := sources.Artifact(ctx, client.ObjectKeyFromObject(sync), *ref)
	if err != nil {
		return nil, err
	}
	snapshot, _, err := source.NewFluxStore(source.FluxOptions{Dir: dir}).Fetch(ctx, sync.Name, *a)
	if snapshot == nil {
		return nil, fmt.Errorf("%w: outside the cluster, plan a checkout instead: plumbline plan FOLDER --against %s", err, sync.Name)
	}
	return snapshot, nil
}

// planned is a Plan, and further information for the report.
type planned struct {
	*plan.Plan
	// upgrade is the effect of a change of Karpenter's version on nodes; nil if it does not change.
	upgrade *upgradeForecast
	// adoption lists the Karpenter objects that another tool has installed; nil if there are none.
	adoption *upgrade.Adoption
	// stopped is why the daemon does not apply the commit; waits is true if it continues without a person.
	// chartsRefused is why it applies the definitions, but does not change the charts.
	stopped, chartsRefused string
	// charts is what the daemon does with the charts; empty if nothing.
	charts string
	waits  bool
	// approve is the digest to approve what is held, and approval the instructions.
	approve, approval string
	// autoMode describes whose the NodePools are; empty without EKS Auto Mode.
	autoMode string
	// rights are the AWS permissions that an upgrade adds; nil if there is none.
	rights *upgrade.Rights
	// live is the live state. If offline is true, there is none to compare with.
	live    plan.Live
	offline bool
	// removal is the policy for entries that the commit removes.
	removal v1alpha1.RemovalPolicy
	rollout v1alpha1.RolloutPolicy
	// unlaunchable lists the NodePools that no instance type satisfies, if AWS was queried.
	unlaunchable []string
	// nodeLimits are the static NodePools in which Karpenter replaces no node because of limits.nodes.
	nodeLimits []plan.NodeLimit
	// pods are those on affected nodes, by object.
	pods []review.Pods
	// whatIf is where pods would be scheduled; nil without --what-if.
	whatIf *whatIfReport
}

// noInstanceType returns the NodePools that no instance type meets, as far as known; the result of a what-if takes precedence.
func (p *planned) noInstanceType() []string {
	if p.whatIf != nil && p.whatIf.Outcome != nil {
		return p.whatIf.Unlaunchable
	}
	return p.unlaunchable
}

// planCommit compares a commit with the cluster of a NodeSync.
func (o *planOptions) planCommit(
	ctx context.Context, c *clusterAccess, sync *v1alpha1.NodeSync, snapshot *render.Snapshot,
) (*planned, error) {
	dir, err := os.MkdirTemp("", "plumbline-charts-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the charts: %w", err)
	}
	defer os.RemoveAll(dir)
	store, err := newLoginStore(ctx, dir)
	if err != nil {
		return nil, err
	}
	helm, err := release.NewInstaller(release.InstallerOptions{Config: c.config, Logger: logr.FromContextOrDiscard(ctx), Confine: confined(ctx)})
	if err != nil {
		return nil, err
	}
	authority, err := certificateAuthority(c.config)
	if err != nil {
		return nil, err
	}
	hidden := redact.Redactor{}
	step := &review.Step{
		Tools: review.Tools{Client: c, Store: store, Helm: helm, CRDs: o.knownCRDs, Schemas: &schema.Cache{}, Confine: confined(ctx), CABundle: plan.CABundle(authority)},
		Sync:  sync, Snapshot: snapshot, Now: time.Now(),
		HideValues:     func(values []string) { hidden = hidden.And(redact.Values(values...)) },
		HideCredential: func(password string) { hidden = hidden.And(redact.Credentials(password)) },
	}
	o.allowQueries(step, c, authority)
	seen, err := step.Make(ctx)
	if err != nil {
		return nil, explain(hidden.Error(err), "plan with NodeSync "+sync.Name)
	}
	whole := &planned{
		Plan: seen.Plan, stopped: errorWords(seen.Stopped, hidden), chartsRefused: errorWords(seen.ChartsRefused, hidden), charts: hidden.Hide(seen.ChartsChange),
		waits: resolvesItself(seen.Stopped), live: seen.Live, autoMode: seen.AutoMode, rights: seen.Rights,
		removal: seen.Removal, rollout: seen.Rollout, unlaunchable: seen.Unlaunchable, nodeLimits: seen.NodeLimits,
	}
	var warnings []string
	if seen.Plan == nil {
		whole.Plan = &plan.Plan{Revision: snapshot.Revision, NodeSync: plan.OwnerOf(sync.Namespace, sync.Name).String()}
	} else {
		var unknown string
		whole.pods, unknown = podsOnNodes(ctx, c, seen.Plan, seen.Live, step.Now)
		warnings = append(warnings, unknown, review.NotSimulated(seen.Plan, whole.pods, sync.Spec.Guard, o.whatIf.on && o.aws))
		whole.approve, whole.approval = approvalOf(sync, seen.Plan)
	}
	for _, warning := range seen.Warnings {
		warnings = append(warnings, hidden.Hide(warning))
	}
	if o.whatIf.on {
		if whole.whatIf, err = o.simulateCluster(ctx, c, whole.Plan, seen.Live); err != nil {
			return nil, err
		}
	}
	if whole.upgrade, err = forecastUpgrade(ctx, c, sync, seen, o.knownCRDs); err != nil {
		return nil, err
	}
	var unread string
	whole.adoption, unread = adoptionOf(ctx, c, sync, seen.Karpenter)
	whole.Warnings = slices.DeleteFunc(append(warnings, unread), func(w string) bool { return w == "" })
	return whole, nil
}

// allowQueries makes a preview query AWS, if the user allows it.
func (o *planOptions) allowQueries(step *review.Step, c *clusterAccess, authority []byte) {
	if step.NotAsked = notQueried; !o.aws {
		return
	}
	step.Ask = queryAWS(authority, "")
	step.Decrypt = account.DecryptWith(dialAsUser)
	step.Grant, step.Next = reconcile.GrantOf(dialAsUser), nextKubernetes(dialAsUser, authority)
	simulator := &simulate.Simulator{Reader: c, Catalogs: &simulate.Catalogs{Ask: catalogOf}, Now: time.Now}
	if o.whatIf.on {
		step.Landing = simulator.Ask // the what-if names the NodePools that no instance type satisfies
	} else {
		step.InstanceTypes = simulator.InstanceTypes
	}
}

// knownCRDs returns the CRDs of a version that need no registry: those in the folder of --crds, or those that this
// program was built with.
func (o *planOptions) knownCRDs(version string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	if o.crds != "" {
		return crdsInFolder(o.crds)
	}
	crds, err := schema.EmbeddedOf(version)
	if crds == nil && err == nil {
		err = fmt.Errorf("this version of plumbline contains only the CRDs of Karpenter %s and %s", schema.EmbeddedVersion, schema.LTSVersion)
	}
	return crds, err
}

// liveCRDs returns the CRDs of all kinds that plumbline manages; none if one that is not optional is missing.
func liveCRDs(ctx context.Context, c client.Client) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range render.Kinds() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := c.Get(ctx, client.ObjectKey{Name: kind.CRD}, crd)
		if apierrors.IsNotFound(err) && kind.Optional() {
			continue
		}
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, explain(err, "read crd "+kind.CRD)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// adoptionOf returns what other tools have installed of Karpenter, until plumbline has installed its charts; nil if there
// is nothing. If the user may not read it, it returns a warning, and the rest of the plan remains.
func adoptionOf(
	ctx context.Context, c *clusterAccess, sync *v1alpha1.NodeSync, git *render.Karpenter,
) (found *upgrade.Adoption, warning string) {
	if k := sync.Status.Karpenter; git == nil || git.Management != render.Managed || k != nil && k.Identity != "" {
		return nil, ""
	}
	report, err := surveyFor(ctx, c, git)
	switch {
	case err != nil:
		return nil, "unknown whether Karpenter is installed already: " + err.Error()
	case report.Empty():
		return nil, ""
	}
	return report, ""
}

// resolvesItself reports whether what stopped a reconcile resolves without a person.
func resolvesItself(err error) bool {
	f := fault.Classify(err)
	return f != nil && f.Class == fault.Waiting
}

// errorWords returns an error in the daemon's words; empty for none.
func errorWords(err error, hidden redact.Redactor) string {
	if err == nil {
		return ""
	}
	found := fault.Classify(err)
	if found.OnlyGit() {
		return found.Error() // redacting a value in it would confirm that it is a Secret's
	}
	return hidden.Hide(found.Error())
}
