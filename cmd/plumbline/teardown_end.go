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

	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
)

// ender deletes in AWS what is left of a cluster. It returns the reason for each ID that it does not delete.
type ender interface {
	End(ctx context.Context, cluster string, resources []cloud.Resource) map[string]error
}

// dialEnder reaches it with the credentials of the user.
func dialEnder(ctx context.Context, region string, points steppoint.Points) (ender, error) {
	return cloud.NewEnder(ctx, cloud.Options{Region: region, UserAgent: "plumbline-cli/" + version, Timeout: time.Minute, Reached: points.Request})
}

// scope is what the flags let this command end in AWS of a cluster that is gone.
func (t *teardownCommand) scope() leftover.Scope {
	return leftover.Scope{Cluster: t.v.cluster, Instances: t.terminate, Leftovers: t.sweep}
}

// endRun ends what the user has confirmed, pass by reconcile.
type endRun struct {
	scope  leftover.Scope
	ending *teardown.Ending
	// renew reads once more what of the cluster stays, before AWS is asked, and allowed says why nothing may be
	// ended, right before that; each may be nil.
	renew   func(ctx context.Context) error
	allowed func(ctx context.Context, aws remains) error

	by ender
}

func resourceID(r cloud.Resource) string { return r.ID }

// endLeft ends what is in scope and was shown until AWS has none of it, twice in a row, or until the time is over.
func (t *teardownCommand) endLeft(ctx context.Context, run *endRun) error {
	aws, _, err := t.v.open(ctx)
	if err != nil {
		return err
	}
	if run.by, err = t.v.dialEnder(ctx, t.v.region, t.points); err != nil {
		return err
	}
	for inARow := 0; inARow < goneTwice; {
		left, denied, err := t.endPass(ctx, aws, run)
		if err != nil || denied {
			return err // who asks once more reports what is denied
		}
		inARow++
		if left {
			inARow = 0
		}
		if !t.v.now().Before(t.until) {
			return nil
		}
		if err := pauseFor(ctx, t.v.pause); err != nil {
			return err
		}
	}
	return nil
}

// endPass asks AWS once and ends what may be ended by its answer. It reports whether something is left to end, or
// may be, and whether AWS denies a question.
func (t *teardownCommand) endPass(ctx context.Context, aws remains, run *endRun) (left, denied bool, err error) {
	if run.renew != nil {
		switch err := run.renew(ctx); {
		case errors.Is(err, errUnreachable):
			return true, false, nil // what stays is unknown: it is read again
		case err != nil:
			return false, false, err
		}
	}
	answers, known, err := t.v.answers(ctx, aws)
	if err != nil {
		return false, false, err
	}
	report, ending := leftover.Judge(answers, known), leftover.Ends(answers, known, run.scope)
	if report.Denied() {
		return false, true, nil
	}
	now, left := run.ending.Now(ending, report.Unanswered())
	if len(now) == 0 {
		return left, false, nil
	}
	if run.allowed != nil {
		if err := run.allowed(ctx, aws); err != nil {
			return false, false, err
		}
	}
	return left, false, t.end(ctx, run, now)
}

// end ends resources, and says what became of each, once. It is an error where AWS denies to end any: to ask
// again does not help.
func (t *teardownCommand) end(ctx context.Context, run *endRun, resources []cloud.Resource) error {
	failed := run.by.End(ctx, t.v.cluster, resources)
	if err := ctx.Err(); err != nil {
		return err
	}
	news, err := run.ending.Attempted(resources, failed)
	for _, words := range news {
		t.show.say(words)
	}
	return err
}

// sayEnds says what is going to end, and what is not.
func (t *teardownCommand) sayEnds(e leftover.Ending, answers []cloud.Answer) {
	if all := slices.Concat(e.Ends, e.Going); len(all) > 0 {
		t.show.say("ends in AWS: " + leftover.Listed(all))
		t.sayAttached(answers, all)
	}
	t.saySpared(e)
}

// sayAttached says which volumes instances have, that they may leave: these are in no list yet.
func (t *teardownCommand) sayAttached(answers []cloud.Answer, instances []cloud.Resource) {
	if volumes := leftover.Attached(answers, instances); len(volumes) > 0 {
		t.show.say("attached to these: " + leftover.Listed(volumes) + "; what their termination leaves of it stays, and is shown by the next run")
	}
}

func (t *teardownCommand) saySpared(e leftover.Ending) {
	for _, r := range e.Spared {
		t.show.say(leftover.Noun(r.Kind) + " " + r.ID + " stays: " + r.Why)
	}
}

// sweepAfter is how long something has to be left before it is deleted in a cluster that lives: a CSI driver
// makes a volume before its PersistentVolume is there, and a CNI plugin an interface before it attaches it.
const sweepAfter = time.Minute

// sweepLeft deletes what nothing in the cluster has any more, once it has been left for a while.
func (t *teardownCommand) sweepLeft(ctx context.Context) error {
	if !t.sweep {
		return nil
	}
	stays := t.v.stays
	defer func() { t.v.stays = stays }()
	if err := t.allStays(ctx); err != nil {
		return err
	}
	first, err := t.sweepable(ctx)
	if err != nil || len(first) == 0 {
		return err
	}
	words := "left in AWS: " + leftover.Listed(first)
	if t.until.Sub(t.v.now()) < t.v.sweepAfter {
		t.show.say(words + "; nothing is swept: less than " + short(t.v.sweepAfter) + " is left of --timeout, and resources must be left for that time before they are deleted")
		return nil
	}
	t.show.say(words + "; what is so in " + short(t.v.sweepAfter) + " is deleted")
	if err := pauseFor(ctx, t.v.sweepAfter); err != nil {
		return err
	}
	asked := t.v.now()
	switch err := t.confirm(ctx, "this permanently deletes the resources above from AWS", t.v.cluster); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errUnconfirmed):
		t.show.say("not confirmed: nothing was swept")
		return nil
	case err != nil:
		return err
	}
	t.until = t.until.Add(t.v.now().Sub(asked)) // a confirmation may take its time
	return t.endLeft(ctx, &endRun{scope: t.sweeps(), ending: teardown.NewEnding(first, resourceID), renew: t.allStays})
}

// allStays reads what of the cluster stays: of any NodePool, EC2NodeClass and NodeClaim that there is, all.
func (t *teardownCommand) allStays(ctx context.Context) error {
	all, err := t.c.leaving(ctx, &v1alpha1.NodeSync{}, t.downTo)
	if err != nil {
		return err
	}
	t.v.stays = all.Known
	return nil
}

// sweeps is what a sweep may delete of a cluster that lives.
func (t *teardownCommand) sweeps() leftover.Scope {
	return leftover.Scope{Cluster: t.v.cluster, Leftovers: true}
}

// sweepable is what is left now and may be deleted.
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
	ending := leftover.Ends(answers, known, t.sweeps())
	t.saySpared(ending)
	return ending.Ends, nil
}

// findStranded are the instances of a NodeSync that Karpenter does not end as things are, and how many NodeClaims it
// is still at.
func (t *teardownCommand) findStranded(ctx context.Context, sync *v1alpha1.NodeSync, l *teardown.Plan) (found []removal.Stranded, busy int, err error) {
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

// endStranded ends the instances that Karpenter has left for a while, once that is confirmed. Where nothing goes on
// by itself after that, the error says what is left.
func (t *teardownCommand) endStranded(ctx context.Context, sync *v1alpha1.NodeSync, l *teardown.Plan) error {
	now := t.v.now()
	if !t.terminate || now.Sub(t.strands.Looked) < t.v.pause {
		return nil
	}
	found, busy, err := t.findStranded(ctx, sync, l)
	switch {
	case errors.Is(err, errUnreachable):
		return nil // the watching says so
	case err != nil:
		return err
	}
	t.strands.Looked = now
	if due := t.strands.Due(found, now, t.v.strandedAfter); len(due) > 0 {
		return t.endDue(ctx, sync, l, due)
	}
	if t.strands.Settled(found, busy, now, t.v.strandedAfter) {
		return t.unfinished(ctx, sync, found)
	}
	return nil
}

// endDue shows what EC2 has of the instances, and ends what is this cluster's only by its tags.
func (t *teardownCommand) endDue(ctx context.Context, sync *v1alpha1.NodeSync, l *teardown.Plan, due []removal.Stranded) error {
	aws, _, err := t.v.open(ctx)
	if err != nil {
		return err
	}
	answers, known, err := t.v.answers(ctx, aws)
	if err != nil {
		return err
	}
	scope := leftover.Scope{Cluster: t.v.cluster, Instances: true}
	if report := leftover.Judge(answers, known); report.Denied() {
		return exitOfReport(report)
	} else if report.Unanswered() {
		return nil // it is asked again
	}
	t.show.end()
	terminate, spared := t.strands.Terminable(due, leftover.Ends(answers, known, scope), t.v.now())
	for _, words := range spared {
		t.show.say(words)
	}
	if len(terminate) == 0 {
		return nil
	}
	run := &endRun{scope: scope, allowed: t.v.sameCluster, ending: teardown.NewEnding(terminate, func(one removal.Stranded) string { return one.ID })}
	return t.endShown(ctx, sync, l, run, terminate)
}

// endShown ends instances of the list, once that is confirmed, and as long as Karpenter does not.
func (t *teardownCommand) endShown(ctx context.Context, sync *v1alpha1.NodeSync, l *teardown.Plan, run *endRun, shown []removal.Stranded) error {
	for _, one := range shown[:min(len(shown), screenful)] {
		t.show.say(teardown.StrandedWords(one))
	}
	t.show.say("--terminate ends " + english.Plural(len(shown), "instance", "") + " with your AWS rights; pods that are on them end with them")
	asked := t.v.now()
	switch err := t.confirm(ctx, "these instances end for good", t.v.cluster); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errUnconfirmed):
		t.terminate = false
		t.show.say("not confirmed: no instance was ended; Karpenter is waited for")
		return nil
	case err != nil:
		return err
	}
	t.until = t.until.Add(t.v.now().Sub(asked)) // a confirmation may take its time
	run.renew = func(ctx context.Context) error {
		found, _, err := t.findStranded(ctx, sync, l)
		is := map[string]bool{}
		for _, one := range found {
			is[one.ID] = true
		}
		run.ending.Keep(func(id string) bool { return is[id] || err != nil })
		return err
	}
	err := t.endLeft(ctx, run)
	t.strands.Handled(t.v.now())
	return err
}

// unfinished says what is left of the NodeSync, and how its deletion completes: only Karpenter removes Karpenter's finalizers.
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
	leaves, err := t.c.leaving(ctx, sync, t.downTo)
	if err != nil {
		return err
	}
	leaves.Cluster, leaves.Region = t.v.cluster, t.v.region
	return &exitError{code: exitStalled, message: leaves.Unfinished(found, report, t.again())}
}
