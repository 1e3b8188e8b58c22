package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/steppoint"
)

const (
	// teardownTime is how long a teardown is watched by default.
	teardownTime = time.Hour
	// goneWithin is how long AWS is asked again after the NodeSync is gone: interfaces and launch
	// templates may end a little later than the instances.
	goneWithin = 2 * time.Minute
)

// standInStarter starts a stand-in for the daemon, over a NodeSync. It ends its nodes, or first only installs Karpenter's charts.
type standInStarter func(ctx context.Context, config *rest.Config, sync *v1alpha1.NodeSync, installs bool, steps steppoint.Options) (*standIn, error)

// teardown takes a NodeSync away by the daemon that leads, or in its place.
type teardown struct {
	c          *cluster
	kubeconfig *genericclioptions.ConfigFlags
	cmd        *cobra.Command
	// v is who asks AWS.
	v       verification
	yes     bool
	timeout time.Duration
	// gone says that there is no cluster any more, terminate that instances are to be ended which Karpenter
	// does not end, and sweep that leftovers are to be deleted.
	gone, terminate, sweep bool
	// suspends says that other appliers of what ends are suspended first.
	suspends bool
	// strands are those instances, where there is a cluster.
	strands stranding
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
	stand  standInStarter
	stands *standIn
	as     string
	// steps are the points that its passes and its own writes reach, and points its own; none in a release.
	steps  steppoint.Options
	points steppoint.Points
	// stopped is why Karpenter's controller does not run; nil where it does.
	stopped *stopped
}

// connect reaches the cluster. The passes have a connection of their own.
func (t *teardown) connect(ctx context.Context) (err error) {
	if t.c, err = connect(ctx, t.kubeconfig); err != nil {
		return err
	}
	t.points.Watch(t.c.config)
	t.c.WithWatch, err = client.NewWithWatch(t.c.config, client.Options{Scheme: t.c.Scheme()})
	return err
}

// run takes it away, or goes on where an earlier run has stopped.
func (t *teardown) run(ctx context.Context, args []string) error {
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
	leaves, err := t.c.leaving(ctx, sync, t.downTo)
	if err != nil {
		return err
	}
	leaves.noteCharts(sync.Status.Karpenter, t.downTo)
	leaves.Suspends = t.suspends
	t.v.stays = leaves.stays
	if err := t.prepare(ctx, sync, leaves); err != nil {
		return err
	}
	if err := t.show.plan(leaves); err != nil {
		return err
	}
	if err := t.begin(ctx, sync, leaves); err != nil {
		t.stands.end()
		return t.ended(ctx, err)
	}
	t.until = t.v.now().Add(t.timeout) // a confirmation may take its time
	err = t.watch(ctx, sync, leaves)
	t.stands.end()
	if err != nil {
		return t.ended(ctx, err)
	}
	t.show.say(t.concluded(sync))
	return t.finish(ctx)
}

// finish asks AWS what is left, after it was swept, and takes Karpenter away where nothing is.
func (t *teardown) finish(ctx context.Context) error {
	if err := t.sweepLeft(ctx); err != nil {
		return t.ended(ctx, err)
	}
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
	if err := t.seeClasses(ctx, sync, leaves); err != nil {
		return err
	}
	if err := t.seeController(ctx, sync, leaves); err != nil {
		return err
	}
	if err := t.seeCredentials(ctx, sync, leaves); err != nil {
		return err
	}
	if err := t.seeHosts(ctx, sync, leaves); err != nil {
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
	begin := t.delete
	if t.downTo.keeps() {
		begin = t.drain
	}
	if err := begin(ctx, sync, leaves); err != nil {
		return err
	}
	if leaves.WithoutDaemon == "" {
		t.show.say("the daemon ends its nodes; Ctrl-C ends the watching and not the teardown")
		return nil
	}
	t.show.say("this command ends its nodes; Ctrl-C stops that, and the same command goes on")
	return t.takeOver(ctx, sync, false)
}

// delete deletes the NodeSync, with onDelete: Drain, unless an earlier run has.
func (t *teardown) delete(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) error {
	drains, deleting := sync.Spec.OnDelete == v1alpha1.OnDeleteDrain, sync.DeletionTimestamp != nil
	if drains && deleting {
		t.show.say(nodeSyncWord(sync.Name) + " is being deleted already, with onDelete: Drain")
		return t.bringBack(ctx, sync, leaves)
	}
	if err := t.confirm(ctx, "all nodes of nodesync/"+sync.Name+" end", sync.Name); err != nil {
		return err
	}
	same := client.Preconditions{UID: &sync.UID}
	if err := t.c.Delete(ctx, sync.DeepCopy(), same, client.DryRunAll); err != nil {
		return explain(err, "delete NodeSync "+sync.Name+" (nothing was changed)")
	}
	if err := t.suspendAppliers(ctx, leaves); err != nil {
		return err
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
	if t.gone {
		return "what EC2 is ending ends. To go on:\n  " + t.again()
	}
	if t.stands != nil {
		return "the lease is released, and what was begun waits for a daemon or for this command. To go on:\n  " + t.again()
	}
	return "what was begun goes on. To go on watching:\n  " + t.again()
}

// again is the command that goes on from wherever this one has stopped.
func (t *teardown) again() string {
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
	if t.downTo != toDefinitions {
		words += " --down-to " + string(t.downTo)
	}
	if t.v.account != "" {
		words += " --account " + t.v.account
	}
	return words
}
