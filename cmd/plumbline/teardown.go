package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
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

func newTeardownCommand(kubeconfig *genericclioptions.ConfigFlags, v verification) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "teardown [NODESYNC]",
		Short: "Take a NodeSync away with all of its nodes, and ask AWS what is left",
		Long: `Show what a NodeSync has, and after a confirmation delete it with onDelete: Drain:
the daemon ends its NodeClaims, asks EC2, and deletes NodePools and EC2NodeClasses;
no guard weighs it, PodDisruptionBudgets hold, and nothing is forced. When the
NodeSync is gone, AWS is asked with your credentials what is left, as by
` + "`plumbline verify --gone`" + `. What other NodePools and EC2NodeClasses of the cluster
have stays, and does not count.

Karpenter's charts and CRDs, and plumbline, stay: uninstall them afterwards, in the
order that docs/how-to/drain-and-delete.md says. A daemon has to lead, as nobody else
ends the nodes safely; AWS has to answer before anything is deleted.

Ctrl-C and --timeout end the watching, not the teardown. The same command goes on
watching; where the NodeSync is gone already it needs --cluster and --region, and
asks AWS only.

Exit codes: 0 AWS was asked and nothing is left; 1 an error, nothing was confirmed,
no daemon leads, or AWS has not answered; 4 something is left, or it is not done
after --timeout.`,
		Example: `  plumbline teardown prod-eu
  plumbline teardown prod-eu --yes --cluster prod-eu --region eu-west-1 -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	t, output := teardown{v: v}, formatText
	cmd.Flags().VarP(formatFlag{&output, []string{string(formatText), string(formatJSON)}}, "output", "o", "how to print; json is one event a line")
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

// teardown takes a NodeSync away by the daemon that leads.
type teardown struct {
	c   *cluster
	cmd *cobra.Command
	// v is who asks AWS.
	v       verification
	yes     bool
	timeout time.Duration
	show    teardownShow
	// name is that of the NodeSync; empty where none was named and there is none.
	name string
	// until is when the time to watch is over.
	until time.Time
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
	if sync == nil {
		t.show.say(fmt.Sprintf("%s does not exist in %s: AWS is asked what is left", nodeSyncWord(t.name), t.c.in(ctx)))
		return t.verify(ctx)
	}
	leaves, err := t.c.leaving(ctx, sync)
	if err != nil {
		return err
	}
	t.v.stays = leaves.stays
	if err := t.prepare(ctx, leaves); err != nil {
		return err
	}
	if err := t.show.plan(leaves); err != nil {
		return err
	}
	if err := t.begin(ctx, sync); err != nil {
		return t.stopped(ctx, err)
	}
	t.until = t.v.now().Add(t.timeout) // a confirmation may take its time
	if err := t.watch(ctx, sync, leaves); err != nil {
		return t.stopped(ctx, err)
	}
	t.show.say(nodeSyncWord(sync.Name) + " is gone")
	return t.verify(ctx)
}

// prepare checks, before anything is changed, that a daemon leads and that AWS answers each question.
func (t *teardown) prepare(ctx context.Context, leaves *teardownPlan) error {
	if why := t.c.withoutDaemon(ctx, t.v.now); why != "" {
		return fmt.Errorf("%[1]s\nnothing was changed: only the daemon ends the nodes safely. Start it (kubectl -n %[2]s scale deployment plumbline --replicas=2, or install its chart again), and run the command again", why, t.c.in(ctx))
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

// begin deletes the NodeSync, with onDelete: Drain, unless an earlier run has.
func (t *teardown) begin(ctx context.Context, sync *v1alpha1.NodeSync) error {
	drains, deleting := sync.Spec.OnDelete == v1alpha1.OnDeleteDrain, sync.DeletionTimestamp != nil
	if drains && deleting {
		t.show.say(nodeSyncWord(sync.Name) + " is being deleted already, with onDelete: Drain")
		return nil
	}
	if err := t.confirm(ctx, sync.Name); err != nil {
		return err
	}
	same := client.Preconditions{UID: &sync.UID}
	if err := t.c.Delete(ctx, sync.DeepCopy(), same, client.DryRunAll); err != nil {
		return explain(err, "delete NodeSync "+sync.Name+" (nothing was changed)")
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
	t.show.say(nodeSyncWord(sync.Name) + " is deleted, and the daemon ends its nodes; Ctrl-C ends the watching and not the teardown")
	return nil
}

// verify asks AWS what is left, and again for a while.
func (t *teardown) verify(ctx context.Context) error {
	t.show.say("asking AWS what is left")
	t.v.timeout = min(goneWithin, max(t.until.Sub(t.v.now()), 0))
	report, err := t.v.ask(ctx)
	if err != nil {
		return t.stopped(ctx, err)
	}
	if err := t.show.report(report); err != nil {
		return err
	}
	return exitOfReport(report)
}

// stopped says how to go on where the user has ended the watching.
func (t *teardown) stopped(ctx context.Context, err error) error {
	t.show.end()
	if ctx.Err() == nil || errors.Is(err, errUnconfirmed) {
		return err
	}
	return &exitError{code: exitFailed, message: "stopped; what was begun goes on. To go on watching:\n  " + t.again()}
}

// again is the command that goes on from wherever this one has stopped.
func (t *teardown) again() string {
	words := strings.TrimSuffix("plumbline teardown "+t.name, " ") + " -n " + t.c.namespace + " --yes --cluster " + t.v.cluster + " --region " + t.v.region
	if t.v.account != "" {
		words += " --account " + t.v.account
	}
	return words
}
