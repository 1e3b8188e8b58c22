package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
)

// deleter deletes in AWS what is left of a cluster. It returns the reason for each ID that it does not delete.
type deleter interface {
	Delete(ctx context.Context, cluster string, resources []cloud.Resource) map[string]error
}

// dialDeleter connects to AWS with the user's credentials.
func dialDeleter(ctx context.Context, region string, points steppoint.Points) (deleter, error) {
	return cloud.NewDeleter(ctx,
		cloud.Options{Region: region, UserAgent: "plumbline-cli/" + version, Timeout: time.Minute, Reached: points.Request})
}

// scope returns what the flags allow this command to delete in AWS for a cluster that no longer exists.
func (t *teardownCommand) scope() leftover.Scope {
	return leftover.Scope{Cluster: t.v.cluster, Instances: t.terminate, Leftovers: t.sweep}
}

// deletionRun deletes what the user has confirmed, one pass at a time.
type deletionRun struct {
	scope    leftover.Scope
	progress *teardown.Deletion
	// Before AWS is queried, renew rereads what the cluster keeps. Right before the deletion, allowed returns why
	// nothing may be deleted. Both may be nil.
	renew   func(ctx context.Context) error
	allowed func(ctx context.Context, aws remains) error

	by deleter
}

func resourceID(r cloud.Resource) string { return r.ID }

// deleteLeft deletes the shown resources in scope until AWS has reported none of them twice in a row, or the time is
// over.
func (t *teardownCommand) deleteLeft(ctx context.Context, run *deletionRun) error {
	aws, _, err := t.v.open(ctx)
	if err != nil {
		return err
	}
	if run.by, err = t.v.dialDeleter(ctx, t.v.region, t.points); err != nil {
		return err
	}
	for inARow := 0; inARow < goneAnswers; {
		left, denied, err := t.deletePass(ctx, aws, run)
		if err != nil || denied {
			return err // a repeated query reports what is denied
		}
		inARow++
		if left {
			inARow = 0
		}
		if !t.v.now().Before(t.until) {
			return nil
		}
		if err := pause.For(ctx, t.v.pause); err != nil {
			return err
		}
	}
	return nil
}

// deletePass queries AWS once and deletes what may be deleted according to the answer. It reports whether something is
// or may be left to delete, and whether AWS denies a query.
func (t *teardownCommand) deletePass(ctx context.Context, aws remains, run *deletionRun) (left, denied bool, err error) {
	if run.renew != nil {
		switch err := run.renew(ctx); {
		case errors.Is(err, errUnreachable):
			return true, false, nil // what to keep is unknown: reread it
		case err != nil:
			return false, false, err
		}
	}
	answers, known, err := t.v.answers(ctx, aws)
	if err != nil {
		return false, false, err
	}
	report, ending := leftover.NewReport(answers, known), leftover.Deletable(answers, known, run.scope)
	if report.Denied() {
		return false, true, nil
	}
	now, left := run.progress.Now(ending, report.Unanswered())
	if len(now) == 0 {
		return left, false, nil
	}
	if run.allowed != nil {
		if err := run.allowed(ctx, aws); err != nil {
			return false, false, err
		}
	}
	return left, false, t.deleteResources(ctx, run, now)
}

// deleteResources deletes resources, and prints the result of each, once. It returns an error if AWS denies a deletion:
// retrying does not help.
func (t *teardownCommand) deleteResources(ctx context.Context, run *deletionRun, resources []cloud.Resource) error {
	failed := run.by.Delete(ctx, t.v.cluster, resources)
	if err := ctx.Err(); err != nil {
		return err
	}
	news, err := run.progress.Attempted(resources, failed)
	for _, words := range news {
		t.show.sentence(words)
	}
	return err
}

// printDeletions prints what will be deleted, and what will not.
func (t *teardownCommand) printDeletions(e leftover.Deletion, answers []cloud.Answer) {
	if all := slices.Concat(e.Delete, e.Terminating); len(all) > 0 {
		t.show.sentence("terminated or deleted in AWS: " + leftover.Listed(all))
		t.printAttached(answers, all)
	}
	t.printSpared(e)
}

// printAttached prints which attached volumes may outlive their instances: no list contains them yet.
func (t *teardownCommand) printAttached(answers []cloud.Answer, instances []cloud.Resource) {
	if volumes := leftover.Attached(answers, instances); len(volumes) > 0 {
		t.show.sentence("attached to these: " + leftover.Listed(volumes) + "; volumes that remain after the termination are listed in the next run")
	}
}

func (t *teardownCommand) printSpared(e leftover.Deletion) {
	for _, r := range e.Spared {
		t.show.sentence(leftover.Noun(r.Kind) + " " + r.ID + " stays: " + r.Why)
	}
}

// sweepAfter is how long a resource must have been left over before it is deleted from an existing cluster: a CSI
// driver creates a volume before its PersistentVolume, and a CNI plugin an interface before attaching it.
const sweepAfter = time.Minute

// sweepLeft deletes what nothing in the cluster uses any more, once it has been left over for a while.
func (t *teardownCommand) sweepLeft(ctx context.Context) error {
	if !t.sweep {
		return nil
	}
	stays := t.v.stays
	defer func() { t.v.stays = stays }()
	if err := t.readKept(ctx); err != nil {
		return err
	}
	first, err := t.sweepable(ctx)
	if err != nil || len(first) == 0 {
		return err
	}
	words := "left in AWS: " + leftover.Listed(first)
	if t.until.Sub(t.v.now()) < t.v.sweepAfter {
		t.show.sentence(words + "; nothing is swept: less than " + short(t.v.sweepAfter) + " is left of --timeout, and resources must be left for that time before they are deleted")
		return nil
	}
	t.show.sentence(words + "; what is still left in " + short(t.v.sweepAfter) + " is deleted")
	if err := pause.For(ctx, t.v.sweepAfter); err != nil {
		return err
	}
	asked := t.v.now()
	switch err := t.confirm(ctx, "this permanently deletes the resources above from AWS", t.v.cluster); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errUnconfirmed):
		t.show.sentence("not confirmed: nothing was swept")
		return nil
	case err != nil:
		return err
	}
	t.until = t.until.Add(t.v.now().Sub(asked)) // waiting for the confirmation does not count
	return t.deleteLeft(ctx, &deletionRun{scope: t.sweeps(), progress: teardown.NewDeletion(first, resourceID), renew: t.readKept})
}

// readKept reads what the cluster keeps: all NodePools, EC2NodeClasses and NodeClaims, regardless of owner.
func (t *teardownCommand) readKept(ctx context.Context) error {
	all, err := t.c.planTeardown(ctx, &v1alpha1.NodeSync{}, t.downTo)
	if err != nil {
		return err
	}
	t.v.stays = all.Known
	return nil
}

// sweeps returns what a sweep may delete from an existing cluster.
func (t *teardownCommand) sweeps() leftover.Scope {
	return leftover.Scope{Cluster: t.v.cluster, Leftovers: true}
}

// sweepable returns what is left over now and may be deleted.
func (t *teardownCommand) sweepable(ctx context.Context) ([]cloud.Resource, error) {
	aws, _, err := t.v.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.v.sameCluster(ctx, aws); err != nil {
		return nil, fmt.Errorf("nothing was swept: %w", err)
	}
	answers, known, err := t.v.answers(ctx, aws)
	if err != nil {
		return nil, err
	}
	ending := leftover.Deletable(answers, known, t.sweeps())
	t.printSpared(ending)
	return ending.Delete, nil
}

// findStranded returns the instances of a NodeSync that Karpenter will not terminate in the current state, and the
// number of NodeClaims that it is still terminating.
func (t *teardownCommand) findStranded(
	ctx context.Context, sync *v1alpha1.NodeSync, l *teardown.Plan,
) (found []removal.Stranded, busy int, err error) {
	sync, err = t.reread(ctx, sync)
	if err != nil || sync == nil {
		return nil, 0, err
	}
	claims, nodes := &karpv1.NodeClaimList{}, &corev1.NodeList{}
	if err := t.c.List(ctx, claims); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, 0, explain(err, "list NodeClaims")
	}
	if err := t.c.List(ctx, nodes); err != nil {
		return nil, 0, explain(err, "list Nodes")
	}
	noted, err := removal.Noted(ctx, t.c, sync)
	if err != nil {
		return nil, 0, explain(err, "read the record of removals")
	}
	gone, err := t.findController(ctx, sync, l)
	if err != nil {
		return nil, 0, err
	}
	found, busy = l.Stranded(sync, claims.Items, nodes.Items, noted, gone == nil)
	return found, busy, nil
}

// terminateStranded terminates the instances that Karpenter has not terminated for a while, after a confirmation. If
// nothing else proceeds without a person after that, it returns an error that lists what is left.
func (t *teardownCommand) terminateStranded(ctx context.Context, sync *v1alpha1.NodeSync, l *teardown.Plan) error {
	now := t.v.now()
	if !t.terminate || now.Sub(t.stranding.Looked) < t.v.pause {
		return nil
	}
	found, busy, err := t.findStranded(ctx, sync, l)
	switch {
	case errors.Is(err, errUnreachable):
		return nil // the watch reports that
	case err != nil:
		return err
	}
	t.stranding.Looked = now
	if due := t.stranding.Due(found, now, t.v.strandedAfter); len(due) > 0 {
		return t.terminateDue(ctx, sync, l, due)
	}
	if t.stranding.Settled(found, busy, now, t.v.strandedAfter) {
		return t.unfinished(ctx, sync, found)
	}
	return nil
}

// terminateDue shows what EC2 has of the instances, and terminates those whose tags name only this cluster.
func (t *teardownCommand) terminateDue(ctx context.Context, sync *v1alpha1.NodeSync, l *teardown.Plan, due []removal.Stranded) error {
	aws, _, err := t.v.open(ctx)
	if err != nil {
		return err
	}
	answers, known, err := t.v.answers(ctx, aws)
	if err != nil {
		return err
	}
	scope := leftover.Scope{Cluster: t.v.cluster, Instances: true}
	if report := leftover.NewReport(answers, known); report.Denied() {
		return exitOfReport(report)
	} else if report.Unanswered() {
		return nil // it is retried
	}
	t.show.end()
	terminate, spared := t.stranding.Terminable(due, leftover.Deletable(answers, known, scope), t.v.now())
	for _, words := range spared {
		t.show.sentence(words)
	}
	if len(terminate) == 0 {
		return nil
	}
	run := &deletionRun{
		scope: scope, allowed: t.v.sameCluster, progress: teardown.NewDeletion(terminate, func(one removal.Stranded) string { return one.ID }),
	}
	return t.terminateShown(ctx, sync, l, run, terminate)
}

// terminateShown terminates the listed instances, after a confirmation, and unless Karpenter is terminating them.
func (t *teardownCommand) terminateShown(
	ctx context.Context, sync *v1alpha1.NodeSync, l *teardown.Plan, run *deletionRun, shown []removal.Stranded,
) error {
	for _, one := range shown[:min(len(shown), screenful)] {
		t.show.sentence(teardown.StrandedWords(one))
	}
	t.show.sentence("--terminate will terminate " + english.Plural(len(shown), "instance", "") + " with your AWS permissions, and with each instance the pods on it")
	asked := t.v.now()
	switch err := t.confirm(ctx, "this terminates these instances permanently", t.v.cluster); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errUnconfirmed):
		t.terminate = false
		t.show.sentence("not confirmed: no instance was terminated; waiting for Karpenter")
		return nil
	case err != nil:
		return err
	}
	t.until = t.until.Add(t.v.now().Sub(asked)) // waiting for the confirmation does not count
	run.renew = func(ctx context.Context) error {
		found, _, err := t.findStranded(ctx, sync, l)
		is := map[string]bool{}
		for _, one := range found {
			is[one.ID] = true
		}
		run.progress.Keep(func(id string) bool { return is[id] || err != nil })
		return err
	}
	err := t.deleteLeft(ctx, run)
	t.stranding.Handled(t.v.now())
	return err
}

// unfinished returns an error that tells what is left of the NodeSync, and how to complete its deletion: only Karpenter
// removes Karpenter's finalizers.
func (t *teardownCommand) unfinished(ctx context.Context, sync *v1alpha1.NodeSync, found []removal.Stranded) error {
	t.show.end()
	report, err := t.v.once(ctx)
	if err != nil {
		return err
	}
	if err := t.show.report(report); err != nil {
		return err
	}
	if report.Unanswered() {
		return exitOfReport(report)
	}
	leaves, err := t.c.planTeardown(ctx, sync, t.downTo)
	if err != nil {
		return err
	}
	leaves.Cluster, leaves.Region = t.v.cluster, t.v.region
	return &exitError{code: exitStalled, message: leaves.Unfinished(found, report, t.continueCommand())}
}
