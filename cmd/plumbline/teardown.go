package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
)

const (
	// teardownTime is how long a teardown is watched by default.
	teardownTime = time.Hour
	// goneWithin is how long AWS is queried again after the NodeSync is deleted: interfaces and launch
	// templates may be deleted a little later than the instances.
	goneWithin = 2 * time.Minute
)

// standInStarter starts a stand-in for the daemon for a NodeSync. It terminates the nodes, or first only installs Karpenter's charts.
type standInStarter func(ctx context.Context, config *rest.Config, sync *v1alpha1.NodeSync, installs bool, steps steppoint.Options) (*standIn, error)

// teardownCommand deletes a NodeSync using the daemon that leads, or in its place.
type teardownCommand struct {
	c          *clusterAccess
	kubeconfig *genericclioptions.ConfigFlags
	cmd        *cobra.Command
	// v queries AWS.
	v       verification
	yes     bool
	timeout time.Duration
	// gone reports whether the cluster no longer exists, terminate whether to terminate instances that Karpenter
	// does not terminate, and sweep whether to delete leftovers.
	gone, terminate, sweep bool
	// suspends reports whether to suspend other appliers of the deleted objects first.
	suspends bool
	// stranding tracks those instances if there is a cluster.
	stranding teardown.Stranding
	// downTo is how much is deleted, and charts are Karpenter's charts if they are deleted, too.
	downTo teardown.Level
	charts karpenterCharts
	// undo deletes the stack of plumbline bootstrap; nil if it stays. confirmed reports whether the user has confirmed the plan.
	undo      *bootstrapCommand
	confirmed bool
	show      teardownShow
	// name is the name of the NodeSync; empty if none was given and none exists.
	name string
	// until is when the watch times out.
	until time.Time
	// startReconciles starts the process that reconciles if no daemon leads, and standIn is the one it has started. It
	// writes as the user, or as the identity in as.
	startReconciles standInStarter
	standIn         *standIn
	as              string
	// steps are the points that its reconciles and its own writes reach, and points its own; a release has none.
	steps  steppoint.Options
	points steppoint.Points
	// stopped is why Karpenter's controller does not run; nil if it does.
	stopped *teardown.Stopped
}

// connect connects to the cluster. The reconciles have a connection of their own.
func (t *teardownCommand) connect(ctx context.Context) (err error) {
	if t.c, err = connect(ctx, t.kubeconfig); err != nil {
		return err
	}
	t.points.Watch(t.c.config)
	t.c.WithWatch, err = client.NewWithWatch(t.c.config, client.Options{Scheme: t.c.Scheme()})
	return err
}

// run deletes the NodeSync, or continues from where an earlier run has stopped.
func (t *teardownCommand) run(ctx context.Context, args []string) error {
	sync, err := t.find(ctx, args)
	if err != nil {
		return err
	}
	if err := t.v.readCluster(ctx, t.c); err != nil {
		return err
	}
	if err := t.findCharts(ctx, sync); err != nil {
		return err
	}
	if err := t.findStack(ctx, sync); err != nil {
		return err
	}
	if sync == nil {
		t.show.sentence(fmt.Sprintf("%s does not exist in %s: querying AWS for what is left", nodeSyncWord(t.name), t.c.namespaceOfNodeSyncs(ctx)))
		return t.finish(ctx)
	}
	leaves, err := t.c.planTeardown(ctx, sync, t.downTo)
	if err != nil {
		return err
	}
	leaves.NoteCharts(sync.Status.Karpenter)
	leaves.Stack = t.stackName()
	leaves.Suspends = t.suspends
	t.v.stays = leaves.Known
	if err := t.prepare(ctx, sync, leaves); err != nil {
		return err
	}
	if err := t.show.plan(leaves); err != nil {
		return err
	}
	if err := t.begin(ctx, sync, leaves); err != nil {
		t.standIn.end()
		return t.withInstructions(ctx, err)
	}
	t.until = t.v.now().Add(t.timeout) // waiting for the confirmation does not count
	err = t.watch(ctx, sync, leaves)
	t.standIn.end()
	if err != nil {
		return t.withInstructions(ctx, err)
	}
	t.show.sentence(t.downTo.Conclusion(sync))
	return t.finish(ctx)
}

// finish sweeps the leftovers, queries AWS for the rest, uninstalls Karpenter if there is none, and deletes the stack.
func (t *teardownCommand) finish(ctx context.Context) error {
	if err := t.sweepLeft(ctx); err != nil {
		return t.withInstructions(ctx, err)
	}
	if err := t.verify(ctx); err != nil {
		return err
	}
	if err := t.uninstall(ctx); err != nil {
		return t.withInstructions(ctx, err)
	}
	return t.deleteStack(ctx)
}

// prepare checks, before anything is changed, that the nodes can be terminated and that AWS answers each query.
func (t *teardownCommand) prepare(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardown.Plan) error {
	if leaves.WithoutDaemon = t.c.withoutDaemon(ctx, t.v.now); leaves.WithoutDaemon != "" {
		if err := t.chooseIdentity(ctx, sync, leaves); err != nil {
			return err
		}
		leaves.As = t.as
	}
	if err := t.checkClasses(ctx, sync, leaves); err != nil {
		return err
	}
	if err := t.checkController(ctx, sync, leaves); err != nil {
		return err
	}
	if err := t.checkCredentials(ctx, sync, leaves); err != nil {
		return err
	}
	if err := t.checkHosts(ctx, sync, leaves); err != nil {
		return err
	}
	report, err := t.v.once(ctx)
	if err != nil {
		return err
	}
	if report.Unanswered() {
		if err := writeReport(t.cmd.ErrOrStderr(), formatText, report); err != nil {
			return err
		}
		return errors.New("AWS does not answer every query, so plumbline could not verify afterwards that nothing is left; nothing was changed")
	}
	leaves.Cluster, leaves.Region, leaves.Account = report.Cluster, report.Region, report.Account
	leaves.Instances = report.Instances()
	return nil
}

// begin deletes the NodeSync, and terminates its nodes if no daemon does.
func (t *teardownCommand) begin(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardown.Plan) error {
	begin := t.delete
	if t.downTo.Keeps() {
		begin = t.drain
	}
	if err := begin(ctx, sync, leaves); err != nil {
		return err
	}
	if leaves.WithoutDaemon == "" {
		t.show.sentence("the daemon terminates its nodes; Ctrl-C stops watching, and the daemon continues the teardown")
		return nil
	}
	t.show.sentence("this command terminates its nodes; Ctrl-C stops it, and the same command continues")
	return t.startStandIn(ctx, sync, false)
}

// delete deletes the NodeSync, with onDelete: Drain, unless an earlier run has deleted it.
func (t *teardownCommand) delete(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardown.Plan) error {
	drains, deleting := sync.Spec.OnDelete == v1alpha1.OnDeleteDrain, sync.DeletionTimestamp != nil
	if drains && deleting {
		t.show.sentence(nodeSyncWord(sync.Name) + " is being deleted already, with onDelete: Drain")
		return t.startController(ctx, sync, leaves)
	}
	if err := t.confirm(ctx, "this terminates all nodes of nodesync/"+sync.Name, sync.Name); err != nil {
		return err
	}
	same := client.Preconditions{UID: &sync.UID}
	if err := t.c.Delete(ctx, sync.DeepCopy(), same, client.DryRunAll); err != nil {
		return explain(err, "delete NodeSync "+sync.Name+" (nothing was changed)")
	}
	if err := t.suspendAppliers(ctx, leaves); err != nil {
		return err
	}
	if err := t.startController(ctx, sync, leaves); err != nil {
		return err
	}
	if !drains {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"onDelete":"Drain"}}`))
		if err := t.c.Patch(ctx, sync.DeepCopy(), patch); err != nil {
			return explain(err, "write NodeSync "+sync.Name)
		}
		t.show.sentence(nodeSyncWord(sync.Name) + ": onDelete is Drain now")
	}
	if deleting {
		return nil
	}
	if err := t.c.Delete(ctx, sync.DeepCopy(), same); err != nil {
		return explain(err, "delete NodeSync "+sync.Name)
	}
	t.show.sentence(nodeSyncWord(sync.Name) + " is deleted")
	return nil
}

// verify queries AWS for what is left, repeatedly for a while.
func (t *teardownCommand) verify(ctx context.Context) error {
	t.show.sentence("querying AWS for what is left")
	t.v.timeout = min(goneWithin, max(t.until.Sub(t.v.now()), 0))
	report, err := t.v.queryUntilGone(ctx)
	if err != nil {
		return t.withInstructions(ctx, err)
	}
	if err := t.show.report(report); err != nil {
		return err
	}
	return exitOfReport(report)
}

// withInstructions returns the error, with instructions on how to continue if the user has stopped the watch.
func (t *teardownCommand) withInstructions(ctx context.Context, err error) error {
	t.show.end()
	if ctx.Err() == nil || errors.Is(err, errUnconfirmed) {
		return err
	}
	return &exitError{code: exitFailed, message: "stopped; " + t.howToContinue()}
}

// howToContinue returns what happens to actions in progress, and how to continue.
func (t *teardownCommand) howToContinue() string {
	if t.gone {
		return "EC2 completes the terminations that have started. To continue:\n  " + t.continueCommand()
	}
	if t.standIn != nil {
		return "the lease is released, and the teardown waits for a daemon or for this command. To continue:\n  " + t.continueCommand()
	}
	return "the daemon continues the teardown. To keep watching:\n  " + t.continueCommand()
}

// continueCommand returns the command that continues from wherever this one has stopped.
func (t *teardownCommand) continueCommand() string {
	words := "plumbline teardown --cluster-gone"
	if !t.gone {
		words = strings.TrimSuffix("plumbline teardown "+t.name, " ") + " -n " + t.c.namespace
	}
	if t.yes {
		words += " --yes"
	}
	words += " --cluster " + t.v.cluster + " --region " + t.v.region
	if t.terminate {
		words += " --terminate"
	}
	if t.sweep {
		words += " --sweep"
	}
	if t.suspends {
		words += " --suspend-appliers"
	}
	if t.downTo != teardown.ToDefinitions {
		words += " --down-to " + string(t.downTo)
	}
	if t.v.account != "" {
		words += " --account " + t.v.account
	}
	return words
}

const teardownHelp = `Show what a NodeSync owns, and after a confirmation delete it with onDelete: Drain. The
daemon deletes its NodeClaims, verifies in EC2 that the instances are terminated, and deletes
its definitions: NodePools, EC2NodeClasses, NodeOverlays, CapacityBuffers. The guard does not
apply. PodDisruptionBudgets are respected, and nothing is forced. When the NodeSync is
deleted, the command queries AWS with your credentials for leftovers, like
` + "`plumbline verify`" + `. Resources of other NodePools and EC2NodeClasses
of the cluster are kept and do not count. --sweep deletes leftovers that nothing in the
cluster uses any more and that carry only this cluster's tags.

--down-to sets how much is deleted. Each level includes the ones before it:
  nodes        NodeClaims and EC2 instances. The NodeSync, with drain: true, and its
               definitions are kept. Its NodePools launch no nodes, and nothing is fetched
               or applied, until ` + "`plumbline resume`" + `
  definitions  NodePools with their NodeClaims and EC2 instances, EC2NodeClasses, and
               the NodeSync. Karpenter and its CRDs are kept (the default)
  controller   Karpenter's main chart, once AWS reports that nothing is left
  crds         Karpenter's CRDs and their chart
  aws          what plumbline bootstrap has made, as plumbline bootstrap --undo does: its stack
               with roles, policies and queue, discovery tags, the entry in aws-auth
plumbline uninstalls Karpenter only if plumbline installed it, no other NodeSync needs it,
and the cluster contains no object of Karpenter's kinds, of any owner. The command also
checks this before it deletes anything. plumbline itself is kept; with --down-to aws it keeps
running without its role. The command does not read the NodeSync's own Git repository. If
there are other NodeSyncs, it reads theirs, because an object may have moved there. AWS must
answer before anything is deleted.

If Flux or Argo CD applies one of the objects, the command names it, because that tool would
create the object again. --suspend-appliers suspends these tools first: it sets spec.suspend
of a Kustomization or HelmRelease, or removes spec.syncPolicy.automated of an Application,
and prints the command that resumes it. If another tool applies the Kustomization, HelmRelease
or Application from Git, that tool may undo the suspension.

Karpenter's controller must run, because only Karpenter drains and terminates the nodes. If
it is scaled to 0, the command scales it up first. If it is missing, the daemon (or this
command, if no daemon leads) first reinstalls it from Git, at its version and with its
values. If neither is possible, the command prints what to do. If the controller's log shows
that AWS refuses its credentials, the command does not start without --terminate. If the
controller or the daemon runs on a node that would be terminated, the command does not
start either: move it to nodes that Karpenter does not manage.

Use --terminate if Karpenter's role or credentials are gone, so that it drains nodes but
cannot terminate their instances. The command then lists the instances that Karpenter drained
at least a minute ago, or all instances if the controller has not run for a minute. After
another confirmation it terminates them with your AWS permissions. It terminates only
instances that a NodeClaim or the record of a removal names and that carry only this
cluster's tags. It does not touch a node whose pods are still being evicted. Karpenter's
finalizers remain; the objects that they block are listed, with exit code 4.

If no daemon leads, this command takes the daemon's lease and runs the daemon's reconcile
itself, with your permissions and AWS credentials. A daemon that starts meanwhile waits. If
the deletion guard lets only the daemon delete, the command impersonates the daemon's
ServiceAccount; you need permission for that.

While a daemon leads, Ctrl-C and --timeout stop only the command, not the teardown. Otherwise
the command releases the lease, and the teardown pauses. Run the same command again to
continue. If the NodeSync is already deleted, add --cluster and --region; the command then
queries only AWS.

Use --cluster-gone for a cluster whose API server no longer exists. The command then queries
only AWS, and without other flags only lists the cluster's resources. --terminate terminates
its instances. --sweep deletes its unattached volumes and network interfaces, launch templates
and instance profiles. Both delete only resources that carry only this cluster's tags and
that were listed before the confirmation; a volume that a terminated instance leaves behind is
listed by the next run. EKS must report each time that the cluster does not exist, and the
API server of the kubeconfig, if any, must not belong to it. Nodes are not drained, because
neither the API server nor Karpenter exists. The required permissions are in
manifests/iam-policy-teardown.json.

Exit codes: 0 AWS was queried and nothing is left; 1 an error, nothing was confirmed,
or AWS did not answer; 4 something is left, or the teardown did not complete in --timeout.`

func newTeardownCommand(kubeconfig *genericclioptions.ConfigFlags, v verification, stand standInStarter) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "teardown [NODESYNC]",
		Short: "Delete a NodeSync with all its nodes, and verify in AWS that nothing is left",
		Long:  teardownHelp,
		Example: `  plumbline teardown prod-eu
  plumbline teardown dev --down-to nodes
  plumbline teardown prod-eu --yes --cluster prod-eu --region eu-west-1 -o json
  plumbline teardown --cluster-gone --cluster prod-eu --region eu-west-1 --account 111122223333 --terminate --sweep`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	t, output := teardownCommand{v: v, kubeconfig: kubeconfig, startReconciles: stand, downTo: teardown.ToDefinitions}, formatText
	cmd.Flags().VarP(formatFlag{&output, []string{string(formatText), string(formatJSON)}}, "output", "o",
		"how to print; json is one event a line")
	t.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if (t.v.cluster == "") != (t.v.region == "") {
			return &usageError{cmd: cmd, err: errors.New("set --cluster and --region together")}
		}
		if err := t.goneFlags(args); err != nil {
			return &usageError{cmd: cmd, err: err}
		}
		if t.points, err = steppoint.New(t.steps); err != nil {
			return err
		}
		t.cmd, t.show, t.until = cmd, newShow(cmd, output, t.v.now), t.v.now().Add(t.timeout)
		if t.gone {
			return t.runGone(cmd.Context())
		}
		if err := t.connect(cmd.Context()); err != nil {
			return err
		}
		return t.run(cmd.Context(), args)
	}
	return cmd
}

// addFlags adds the flags that set how far the teardown goes, and which cluster it applies to.
func (t *teardownCommand) addFlags(cmd *cobra.Command) {
	t.steps.BindFlags(cmd.Flags())
	cmd.Flags().Var(&t.downTo, "down-to", "how much to delete: nodes; also their definitions; also Karpenter's controller; "+
		"also its CRDs; also what plumbline bootstrap has made in AWS")
	cmd.Flags().BoolVar(&t.yes, "yes", false, "skip the confirmation")
	cmd.Flags().DurationVar(&t.timeout, "timeout", teardownTime, "maximum time to watch")
	cmd.Flags().StringVar(&t.v.cluster, "cluster", "", "name of the EKS cluster; required if the NodeSync does not record it or is deleted")
	cmd.Flags().StringVar(&t.v.region, "region", "", "region of the cluster, with --cluster")
	cmd.Flags().StringVar(&t.v.account, "account", "", "ID of the AWS account that the credentials must belong to")
	cmd.Flags().BoolVar(&t.gone, "cluster-gone", false, "the cluster's API server no longer exists: query only AWS")
	cmd.Flags().BoolVar(&t.terminate, "terminate", false, "terminate instances with your AWS permissions: those of a deleted cluster, or those that Karpenter drained and has not terminated for a minute")
	cmd.Flags().BoolVar(&t.suspends, "suspend-appliers", false,
		"first suspend the Kustomizations, HelmReleases and Applications that apply the deleted objects and would create them again")
	cmd.Flags().BoolVar(&t.sweep, "sweep", false,
		"delete leftovers that carry only this cluster's tags: unattached volumes and interfaces, launch templates, instance profiles")
}

// find reads the NodeSync and takes the cluster's names from it. It returns nil if there is none and the
// flags contain the names: an earlier run may have deleted it.
func (t *teardownCommand) find(ctx context.Context, args []string) (*v1alpha1.NodeSync, error) {
	sync, err := t.read(ctx, args)
	if err != nil || sync == nil {
		return nil, err
	}
	if err := t.downTo.Drainable(sync); err != nil {
		return nil, err
	}
	t.name = sync.Name
	k := sync.Status.Karpenter
	switch unknown := k == nil || k.Cluster == "" || k.Region == ""; {
	case t.v.cluster == "":
	case unknown:
		return sync, nil
	case t.v.cluster != k.Cluster || t.v.region != k.Region:
		return nil, fmt.Errorf("nodesync/%s is of cluster %s in %s, and not of %s in %s: correct --cluster and --region, or the kubeconfig's context", sync.Name, k.Cluster, k.Region, t.v.cluster, t.v.region)
	}
	return sync, t.v.useNamesOf(sync)
}

// read reads the named NodeSync, or the only one of the namespace.
func (t *teardownCommand) read(ctx context.Context, args []string) (*v1alpha1.NodeSync, error) {
	if len(args) == 0 {
		return t.onlyOne(ctx)
	}
	name, err := nameOf(args[0])
	if err != nil {
		return nil, err
	}
	t.name = name
	sync, err := t.c.readWhole(ctx, name)
	if missing := apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err); missing && t.v.cluster != "" {
		return nil, nil
	}
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("nodesync/%s does not exist in %s, `plumbline get -A` lists all; if it was torn down, query AWS for what is left with --cluster and --region", name, t.c.namespaceOfNodeSyncs(ctx))
	}
	if err != nil {
		return nil, explain(err, fmt.Sprintf("read NodeSync %s/%s", t.c.namespaceOfNodeSyncs(ctx), name))
	}
	return sync, nil
}

func (t *teardownCommand) onlyOne(ctx context.Context) (*v1alpha1.NodeSync, error) {
	list, err := t.c.readAll(ctx, false)
	if err != nil {
		return nil, err
	}
	switch len(list.Items) {
	case 0:
		if t.v.cluster != "" {
			return nil, nil
		}
		return nil, fmt.Errorf("no NodeSync in %s, `plumbline get -A` lists all; if it was torn down, query AWS for what is left with --cluster and --region", t.c.namespaceOfNodeSyncs(ctx))
	case 1:
		return t.read(ctx, []string{list.Items[0].Name})
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return nil, fmt.Errorf("there are several NodeSyncs in %s: name one of %s", t.c.namespaceOfNodeSyncs(ctx), strings.Join(names, ", "))
}

// readWhole reads a NodeSync including its managed fields; its errors are the API server's.
func (c *clusterAccess) readWhole(ctx context.Context, name string) (*v1alpha1.NodeSync, error) {
	sync := &v1alpha1.NodeSync{}
	return sync, c.Get(ctx, client.ObjectKey{Namespace: c.namespaceOfNodeSyncs(ctx), Name: name}, sync)
}

// confirm makes the user type a name, after the command has shown what it will do.
func (t *teardownCommand) confirm(ctx context.Context, what, name string) error {
	if t.yes {
		return nil
	}
	terminal := terminalOf(t.cmd)
	if terminal == nil {
		return &usageError{cmd: t.cmd, err: fmt.Errorf("%s: without a terminal to type the name in, confirm with --yes", what)}
	}
	if typedLine(ctx, t.cmd, terminal, fmt.Sprintf("\nType %s to confirm: ", name)) != name {
		return errUnconfirmed
	}
	t.confirmed = true
	return nil
}

// withoutDaemon returns why no daemon would terminate the nodes; empty if one leads, or if that is unknown.
// It does not detect a daemon outside the cluster that runs without --leader-elect.
func (c *clusterAccess) withoutDaemon(ctx context.Context, now func() time.Time) string {
	if why, _ := c.daemonMissing(ctx, now); why != "" {
		return "no daemon leads: " + why
	}
	return ""
}

// noDaemon returns why no daemon handles a request, or what follows it; runs is false if that is unknown. Without a
// lease, it does not detect a daemon outside the cluster that runs without --leader-elect, unless that has handled the request.
func (c *clusterAccess) noDaemon(ctx context.Context, handled bool) (why string, runs bool) {
	why, elected := c.daemonMissing(ctx, time.Now)
	switch {
	case why == "":
		return "", true
	case elected:
		return "no daemon leads: " + why, false
	case handled:
		return "", false
	}
	return "no daemon was found: " + why, false
}

// daemonMissing returns why no daemon leads; empty if one does, or if that is unknown. elected is true if there is a lease.
func (c *clusterAccess) daemonMissing(ctx context.Context, now func() time.Time) (why string, elected bool) {
	namespace := c.namespaceOfNodeSyncs(ctx)
	if why := leaderMissing(ctx, c, namespace, now); why != "" {
		return strings.TrimPrefix(why, "no daemon leads: "), true
	}
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease)
	is, elected := "was released", true
	switch {
	case apierrors.IsNotFound(err):
		is, elected = "does not exist", false
	case err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != "":
		return "", true
	}
	if !noReadyPod(ctx, c, namespace) {
		return "", elected
	}
	return fmt.Sprintf("lease %s/%s %s, and no pod of plumbline is Ready there", namespace, leaseName, is), elected
}
