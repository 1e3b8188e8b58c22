package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	// teardownTime is how long a teardown is watched by default.
	teardownTime = time.Hour
	// goneWithin is how long AWS is asked again after the NodeSync is gone: interfaces and launch
	// templates may end a little later than the instances.
	goneWithin = 2 * time.Minute
)

// standing starts a stand-in for the daemon, over the NodeSync of a UID.
type standing func(ctx context.Context, config *rest.Config, namespace string, uid types.UID) (*standIn, error)

func newTeardownCommand(kubeconfig *genericclioptions.ConfigFlags, v verification, stand standing) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "teardown [NODESYNC]",
		Short: "Take a NodeSync away with all of its nodes, and ask AWS what is left",
		Long: `Show what a NodeSync has, and after a confirmation delete it with onDelete: Drain:
the daemon ends its NodeClaims, asks EC2, and deletes NodePools and EC2NodeClasses;
no guard weighs it, PodDisruptionBudgets hold, and nothing is forced. When the
NodeSync is gone, AWS is asked with your credentials what is left, as by
` + "`plumbline verify --gone`" + `. What other NodePools and EC2NodeClasses of the cluster
have stays, and does not count.

--down-to says how far it goes, each level after the one before:
  definitions  NodePools with their NodeClaims and EC2 instances, EC2NodeClasses, and
               the NodeSync; Karpenter and its CRDs stay (the default)
  controller   and then, once AWS has nothing left, Karpenter's main chart
  crds         and then its CRDs, and their chart
Karpenter goes only where plumbline has installed it, no other NodeSync needs it, and
no object of its kinds is left in the cluster, of any owner; that is checked before
anything is deleted, too. plumbline itself stays. Git is not asked. AWS has to answer
before anything is deleted.

Karpenter's controller has to run, as nothing else ends the nodes. Where it is scaled to
0 it is scaled up first; where it is gone, the daemon installs it again first; where
neither is possible, the command says what to do.

Where no daemon leads, this command takes the daemon's lease and ends the nodes
itself, by the daemon's own passes, with your rights and AWS credentials; a daemon
that starts meanwhile waits. Where the deletion guard lets only the daemon delete, it
acts as the daemon's ServiceAccount, which you need the right to impersonate.

Ctrl-C and --timeout end the watching, not the teardown, as long as a daemon leads;
else the lease is released, and what was begun waits. The same command goes on;
where the NodeSync is gone already it needs --cluster and --region, and asks AWS only.

Exit codes: 0 AWS was asked and nothing is left; 1 an error, nothing was confirmed,
or AWS has not answered; 4 something is left, or it is not done after --timeout.`,
		Example: `  plumbline teardown prod-eu
  plumbline teardown prod-eu --yes --cluster prod-eu --region eu-west-1 -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	t, output := teardown{v: v, kubeconfig: kubeconfig, stand: stand, downTo: toDefinitions}, formatText
	cmd.Flags().VarP(formatFlag{&output, []string{string(formatText), string(formatJSON)}}, "output", "o", "how to print; json is one event a line")
	cmd.Flags().Var(&t.downTo, "down-to", "what is taken away: nodes and their definitions, and then Karpenter's controller, and then its CRDs, too")
	cmd.Flags().BoolVar(&t.yes, "yes", false, "ask for no confirmation")
	cmd.Flags().DurationVar(&t.timeout, "timeout", teardownTime, "longest time to watch")
	cmd.Flags().StringVar(&t.v.cluster, "cluster", "", "name of the EKS cluster; needed where the NodeSync does not say it, or is gone")
	cmd.Flags().StringVar(&t.v.region, "region", "", "region of the cluster, with --cluster")
	cmd.Flags().StringVar(&t.v.account, "account", "", "account that AWS has to be, by its number")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if (t.v.cluster == "") != (t.v.region == "") {
			return &usageError{cmd: cmd, err: errors.New("--cluster and --region go together")}
		}
		if t.c, err = connect(cmd.Context(), kubeconfig); err != nil {
			return err
		}
		t.cmd, t.show = cmd, newShow(cmd, output, t.v.now)
		return t.run(cmd.Context(), args)
	}
	return cmd
}

// teardown takes a NodeSync away by the daemon that leads, or in its place.
type teardown struct {
	c          *cluster
	kubeconfig *genericclioptions.ConfigFlags
	cmd        *cobra.Command
	// v is who asks AWS.
	v       verification
	yes     bool
	timeout time.Duration
	// downTo is how much is taken away, and charts are Karpenter's where they are.
	downTo level
	charts karpenterCharts
	show   teardownShow
	// name is that of the NodeSync; empty where none was named and there is none.
	name string
	// until is when the time to watch is over.
	until time.Time
	// stand starts what makes passes where no daemon leads, and stands is what it has started. It
	// writes as the user, or as another one.
	stand  standing
	stands *standIn
	as     string
	// stopped is why Karpenter's controller does not run; nil where it does.
	stopped *stopped
}

// run takes it away, or goes on where an earlier run has stopped.
func (t *teardown) run(ctx context.Context, args []string) error {
	t.until = t.v.now().Add(t.timeout)
	sync, err := t.find(ctx, args)
	if err != nil {
		return err
	}
	if err := t.v.takeCluster(ctx, t.c); err != nil {
		return err
	}
	if err := t.findCharts(ctx, sync); err != nil {
		return err
	}
	if sync == nil {
		t.show.say(fmt.Sprintf("%s does not exist in %s: AWS is asked what is left", nodeSyncWord(t.name), t.c.in(ctx)))
		return t.finish(ctx)
	}
	leaves, err := t.c.leaving(ctx, sync)
	if err != nil {
		return err
	}
	leaves.noteCharts(sync.Status.Karpenter, t.downTo)
	t.v.stays = leaves.stays
	if err := t.prepare(ctx, sync, leaves); err != nil {
		return err
	}
	if err := t.show.plan(leaves); err != nil {
		return err
	}
	if err := t.begin(ctx, sync, leaves); err != nil {
		return t.ended(ctx, err)
	}
	t.until = t.v.now().Add(t.timeout) // a confirmation may take its time
	err = t.watch(ctx, sync, leaves)
	t.stands.end()
	if err != nil {
		return t.ended(ctx, err)
	}
	t.show.say(nodeSyncWord(sync.Name) + " is gone")
	return t.finish(ctx)
}

// finish asks AWS what is left, and takes Karpenter away where nothing is.
func (t *teardown) finish(ctx context.Context) error {
	if err := t.verify(ctx); err != nil {
		return err
	}
	if err := t.uninstall(ctx); err != nil {
		return t.ended(ctx, err)
	}
	return nil
}

// prepare checks, before anything is changed, that the nodes can be ended and that AWS answers each question.
func (t *teardown) prepare(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) error {
	if leaves.WithoutDaemon = t.c.withoutDaemon(ctx, t.v.now); leaves.WithoutDaemon != "" {
		if err := t.mayEnd(ctx, sync, leaves); err != nil {
			return err
		}
		leaves.As = t.as
	}
	if err := t.seeController(ctx, sync, leaves); err != nil {
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
		return errors.New("AWS does not answer every question, and could not say afterwards that nothing is left; nothing was changed")
	}
	leaves.Cluster, leaves.Region, leaves.Account = report.Cluster, report.Region, report.Account
	leaves.Instances = report.Instances()
	return nil
}

// begin deletes the NodeSync, and ends its nodes where no daemon does.
func (t *teardown) begin(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) error {
	if err := t.delete(ctx, sync, leaves); err != nil {
		return err
	}
	if leaves.WithoutDaemon == "" {
		t.show.say("the daemon ends its nodes; Ctrl-C ends the watching and not the teardown")
		return nil
	}
	t.show.say("this command ends its nodes; Ctrl-C stops that, and the same command goes on")
	return t.takeOver(ctx, sync)
}

// delete deletes the NodeSync, with onDelete: Drain, unless an earlier run has.
func (t *teardown) delete(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) error {
	drains, deleting := sync.Spec.OnDelete == v1alpha1.OnDeleteDrain, sync.DeletionTimestamp != nil
	if drains && deleting {
		t.show.say(nodeSyncWord(sync.Name) + " is being deleted already, with onDelete: Drain")
		return t.bringBack(ctx, sync, leaves)
	}
	if err := t.confirm(ctx, sync.Name); err != nil {
		return err
	}
	same := client.Preconditions{UID: &sync.UID}
	if err := t.c.Delete(ctx, sync.DeepCopy(), same, client.DryRunAll); err != nil {
		return explain(err, "delete NodeSync "+sync.Name+" (nothing was changed)")
	}
	if err := t.bringBack(ctx, sync, leaves); err != nil {
		return err
	}
	if !drains {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"onDelete":"Drain"}}`))
		if err := t.c.Patch(ctx, sync.DeepCopy(), patch); err != nil {
			return explain(err, "write NodeSync "+sync.Name)
		}
		t.show.say(nodeSyncWord(sync.Name) + ": onDelete is Drain now")
	}
	if deleting {
		return nil
	}
	if err := t.c.Delete(ctx, sync.DeepCopy(), same); err != nil {
		return explain(err, "delete NodeSync "+sync.Name)
	}
	t.show.say(nodeSyncWord(sync.Name) + " is deleted")
	return nil
}

// verify asks AWS what is left, and again for a while.
func (t *teardown) verify(ctx context.Context) error {
	t.show.say("asking AWS what is left")
	t.v.timeout = min(goneWithin, max(t.until.Sub(t.v.now()), 0))
	report, err := t.v.ask(ctx)
	if err != nil {
		return t.ended(ctx, err)
	}
	if err := t.show.report(report); err != nil {
		return err
	}
	return exitOfReport(report)
}

// ended says how to go on where the user has ended the watching.
func (t *teardown) ended(ctx context.Context, err error) error {
	t.show.end()
	if ctx.Err() == nil || errors.Is(err, errUnconfirmed) {
		return err
	}
	return &exitError{code: exitFailed, message: "stopped; " + t.goesOn()}
}

// goesOn says what becomes of what was begun, and how to go on.
func (t *teardown) goesOn() string {
	if t.stands != nil {
		return "the lease is released, and what was begun waits for a daemon or for this command. To go on:\n  " + t.again()
	}
	return "what was begun goes on. To go on watching:\n  " + t.again()
}

// again is the command that goes on from wherever this one has stopped.
func (t *teardown) again() string {
	words := strings.TrimSuffix("plumbline teardown "+t.name, " ") + " -n " + t.c.namespace + " --yes --cluster " + t.v.cluster + " --region " + t.v.region
	if t.downTo != toDefinitions {
		words += " --down-to " + string(t.downTo)
	}
	if t.v.account != "" {
		words += " --account " + t.v.account
	}
	return words
}
