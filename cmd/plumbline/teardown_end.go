package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"github.com/plumbline-dev/plumbline/render"
)

// ender is AWS, as far as it ends what is left of a cluster; it returns why, by the ID of each that it does not.
type ender interface {
	End(ctx context.Context, cluster string, resources []cloud.Resource) map[string]error
}

// dialEnder reaches it with the credentials of the user.
func dialEnder(ctx context.Context, region string, points steppoint.Points) (ender, error) {
	return cloud.NewEnder(ctx, cloud.Options{Region: region, UserAgent: "plumbline-cli/" + version, Timeout: time.Minute, Reached: points.Request})
}

// scope is what the flags let this command end in AWS of a cluster that is gone.
func (t *teardown) scope() leftover.Scope {
	return leftover.Scope{Cluster: t.v.cluster, Instances: t.terminate, Leftovers: t.sweep}
}

// endRun ends what the user has confirmed, pass by pass.
type endRun struct {
	scope leftover.Scope
	// shown are the IDs of what was listed before the confirmation: nothing else is ended.
	shown map[string]bool
	// renew reads once more what of the cluster stays, before AWS is asked, and allowed says why nothing may be
	// ended, right before that; each may be nil.
	renew   func(ctx context.Context) error
	allowed func(ctx context.Context, aws remains) error

	by ender
	// said is what was printed of each, and refused how often AWS has refused it.
	said    map[string]string
	refused map[string]int
	// taken reports whether AWS has ended something.
	taken bool
}

// refusedTwice is how often something is tried that AWS refuses: a protection may be lifted meanwhile.
const refusedTwice = 2

// shownIDs are those of a list.
func shownIDs(resources []cloud.Resource) map[string]bool {
	ids := map[string]bool{}
	for _, r := range resources {
		ids[r.ID] = true
	}
	return ids
}

// endLeft ends what is in scope and was shown until AWS has none of it, twice in a row, or until the time is over.
func (t *teardown) endLeft(ctx context.Context, run *endRun) error {
	aws, _, err := t.v.open(ctx)
	if err != nil {
		return err
	}
	if run.by, err = t.v.dialEnder(ctx, t.v.region, t.points); err != nil {
		return err
	}
	run.said, run.refused = map[string]string{}, map[string]int{}
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
func (t *teardown) endPass(ctx context.Context, aws remains, run *endRun) (left, denied bool, err error) {
	if run.renew != nil {
		switch err := run.renew(ctx); {
		case errors.Is(err, errUnreachable):
			return true, false, nil // nobody knows what stays: it is read again
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
	now := slices.DeleteFunc(ending.Now(), func(r cloud.Resource) bool { return !run.shown[r.ID] || run.refused[r.ID] >= refusedTwice })
	left = report.Unanswered() || len(now)+len(ending.Going) > 0
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
func (t *teardown) end(ctx context.Context, run *endRun, resources []cloud.Resource) error {
	failed := run.by.End(ctx, t.v.cluster, resources)
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, r := range resources {
		words := "is deleted"
		if r.Kind == cloud.KindInstance {
			words = "is being terminated"
		}
		if err := failed[r.ID]; err != nil {
			words = "is not ended: " + leftover.Explain(err, leftover.EndingPolicy)
			if cloud.Refused(err) {
				run.refused[r.ID]++
			}
		} else {
			run.taken = true
		}
		if run.said[r.ID] != words {
			run.said[r.ID] = words
			t.show.say(leftover.Noun(r.Kind) + " " + r.ID + " " + words)
		}
	}
	return run.useless(failed)
}

// useless says why to go on does not help: AWS does not accept the credentials, or denies to end anything.
func (r *endRun) useless(failed map[string]error) error {
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		var denied *cloud.DeniedError
		var credentials *cloud.CredentialsError
		if errors.As(failed[id], &credentials) || errors.As(failed[id], &denied) && !r.taken {
			return errors.New(leftover.Explain(failed[id], leftover.EndingPolicy))
		}
	}
	return nil
}

// sayEnds says what is going to end, and what is not.
func (t *teardown) sayEnds(e leftover.Ending, answers []cloud.Answer) {
	if all := slices.Concat(e.Ends, e.Going); len(all) > 0 {
		t.show.say("ends in AWS: " + leftover.Listed(all))
		t.sayAttached(answers, all)
	}
	t.saySpared(e)
}

// sayAttached says which volumes instances have, that they may leave: these are in no list yet.
func (t *teardown) sayAttached(answers []cloud.Answer, instances []cloud.Resource) {
	if volumes := leftover.Attached(answers, instances); len(volumes) > 0 {
		t.show.say("attached to these: " + leftover.Listed(volumes) + "; what their termination leaves of it stays, and is shown by the next run")
	}
}

func (t *teardown) saySpared(e leftover.Ending) {
	for _, r := range e.Spared {
		t.show.say(leftover.Noun(r.Kind) + " " + r.ID + " stays: " + r.Why)
	}
}

// sweepAfter is how long something has to be left before it is deleted in a cluster that lives: a CSI driver
// makes a volume before its PersistentVolume is there, and a CNI plugin an interface before it attaches it.
const sweepAfter = time.Minute

// sweepLeft deletes what nothing in the cluster has any more, once it has been left for a while.
func (t *teardown) sweepLeft(ctx context.Context) error {
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
		t.show.say(words + "; nothing is swept: less than " + short(t.v.sweepAfter) + " is left of --timeout, and what is deleted has to be left that long")
		return nil
	}
	t.show.say(words + "; what is so in " + short(t.v.sweepAfter) + " is deleted")
	if err := pauseFor(ctx, t.v.sweepAfter); err != nil {
		return err
	}
	asked := t.v.now()
	switch err := t.confirm(ctx, "this is deleted in AWS for good", t.v.cluster); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errUnconfirmed):
		t.show.say("not confirmed: nothing was swept")
		return nil
	case err != nil:
		return err
	}
	t.until = t.until.Add(t.v.now().Sub(asked)) // a confirmation may take its time
	return t.endLeft(ctx, &endRun{scope: t.sweeps(), shown: shownIDs(first), renew: t.allStays})
}

// allStays reads what of the cluster stays: of any NodePool, EC2NodeClass and NodeClaim that there is, all.
func (t *teardown) allStays(ctx context.Context) error {
	all, err := t.c.leaving(ctx, &v1alpha1.NodeSync{}, t.downTo)
	if err != nil {
		return err
	}
	t.v.stays = all.stays
	return nil
}

// sweeps is what a sweep may delete of a cluster that lives.
func (t *teardown) sweeps() leftover.Scope {
	return leftover.Scope{Cluster: t.v.cluster, Leftovers: true}
}

// sweepable is what is left now and may be deleted.
func (t *teardown) sweepable(ctx context.Context) ([]cloud.Resource, error) {
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

// strandedAfter is how long Karpenter has to have left an instance before --terminate ends it, and how long it is
// waited for afterwards: a controller that is restarted is back within that time.
const strandedAfter = time.Minute

// stranding is what Karpenter leaves, from one look to the next.
type stranding struct {
	looked time.Time
	// since is when each instance was found stranded first, without a break.
	since map[string]time.Time
	// handled are those that are ended, or that stay in AWS whatever this command does, and lastly is when that
	// was so of one more.
	handled map[string]bool
	lastly  time.Time
}

// due are the instances that have been stranded for a while, and are not handled yet.
func (s *stranding) due(found []removal.Stranded, now time.Time, after time.Duration) (due []removal.Stranded) {
	before := s.since
	s.since = map[string]time.Time{}
	for _, one := range found {
		since, known := before[one.ID]
		if !known {
			since = now
		}
		s.since[one.ID] = since
		if !s.handled[one.ID] && now.Sub(since) >= after {
			due = append(due, one)
		}
	}
	return due
}

// settled reports whether nothing goes on by itself any more: all NodeClaims that are left are of instances that were
// handled a while ago.
func (s *stranding) settled(found []removal.Stranded, busy int, now time.Time, after time.Duration) bool {
	waits := func(one removal.Stranded) bool { return one.Claim != "" && !s.handled[one.ID] }
	return len(s.handled) > 0 && busy == 0 && now.Sub(s.lastly) >= after && !slices.ContainsFunc(found, waits)
}

func (s *stranding) handle(id string, now time.Time) {
	if s.handled == nil {
		s.handled = map[string]bool{}
	}
	s.handled[id], s.lastly = true, now
}

// findStranded are the instances of a NodeSync that Karpenter does not end as things are, and how many NodeClaims it
// is still at.
func (t *teardown) findStranded(ctx context.Context, sync *v1alpha1.NodeSync, l *teardownPlan) (found []removal.Stranded, busy int, err error) {
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
	by := removal.Standing{Pools: map[string]bool{}, Ready: readyNodes(nodes.Items), Noted: noted, Runs: gone == nil}
	for _, object := range l.Objects {
		if object.Kind == render.NodePool {
			by.Pools[object.Name] = false
		}
	}
	for _, removal := range sync.Status.Removals {
		if removal.Kind == render.NodePool {
			by.Pools[removal.Name] = removal.Phase != v1alpha1.RemovalHeld
		}
	}
	found, busy = removal.Strands(l.withoutOthers(claims.Items), by)
	return found, busy, nil
}

// readyNodes are the names of the Nodes that are Ready.
func readyNodes(nodes []corev1.Node) map[string]bool {
	ready := map[string]bool{}
	for i := range nodes {
		ready[nodes[i].Name] = isReady(&nodes[i])
	}
	return ready
}

// endStranded ends the instances that Karpenter has left for a while, once that is confirmed. Where nothing goes on
// by itself after that, the error says what is left.
func (t *teardown) endStranded(ctx context.Context, sync *v1alpha1.NodeSync, l *teardownPlan) error {
	now := t.v.now()
	if !t.terminate || now.Sub(t.strands.looked) < t.v.pause {
		return nil
	}
	found, busy, err := t.findStranded(ctx, sync, l)
	switch {
	case errors.Is(err, errUnreachable):
		return nil // the watching says so
	case err != nil:
		return err
	}
	t.strands.looked = now
	if due := t.strands.due(found, now, t.v.strandedAfter); len(due) > 0 {
		return t.endDue(ctx, sync, l, due)
	}
	if t.strands.settled(found, busy, now, t.v.strandedAfter) {
		return t.unfinished(ctx, sync, found)
	}
	return nil
}

// endDue shows what EC2 has of the instances, and ends what is this cluster's only by its tags.
func (t *teardown) endDue(ctx context.Context, sync *v1alpha1.NodeSync, l *teardownPlan, due []removal.Stranded) error {
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
	run := &endRun{scope: scope, shown: map[string]bool{}, allowed: t.v.sameCluster}
	what := leftover.Ends(answers, known, scope)
	var lines []string
	for _, one := range due {
		ends, spared := what.Of(one.ID)
		switch {
		case ends:
			run.shown[one.ID] = true
			lines = append(lines, strandedWords(one))
		case spared != "":
			t.show.say("instance " + one.ID + " stays: " + spared)
		case one.Claim == "": // it has ended, as it should
			t.strands.since[one.ID] = t.v.now()
			continue
		}
		t.strands.handle(one.ID, t.v.now())
	}
	if len(lines) == 0 {
		return nil
	}
	return t.endShown(ctx, sync, l, run, lines)
}

// strandedWords are an instance in a line.
func strandedWords(one removal.Stranded) string {
	words := "instance " + one.ID
	switch {
	case one.Node != "":
		words += " of Node/" + one.Node
	case one.Claim != "":
		words += " of NodeClaim/" + one.Claim
	}
	if one.Claim != "" && !one.Drained {
		return words + " is not drained: " + one.Why
	}
	return words + ": " + one.Why
}

// endShown ends instances of the list, once that is confirmed, and as long as Karpenter does not.
func (t *teardown) endShown(ctx context.Context, sync *v1alpha1.NodeSync, l *teardownPlan, run *endRun, lines []string) error {
	for _, line := range lines[:min(len(lines), screenful)] {
		t.show.say(line)
	}
	t.show.say("--terminate ends " + english.Plural(len(lines), "instance", "") + " with your AWS rights; pods that are on them end with them")
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
		for id := range run.shown {
			run.shown[id] = run.shown[id] && (is[id] || err != nil)
		}
		return err
	}
	err := t.endLeft(ctx, run)
	t.strands.lastly = t.v.now()
	return err
}

// unfinished says what is left of the NodeSync, and how it comes to its end: Karpenter's finalizers are Karpenter's.
func (t *teardown) unfinished(ctx context.Context, sync *v1alpha1.NodeSync, found []removal.Stranded) error {
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
	var left []string
	for _, one := range found {
		if one.Claim != "" {
			left = append(left, "NodeClaim/"+one.Claim)
		}
	}
	for _, object := range leaves.Objects {
		if !t.downTo.keeps() && !object.Gone {
			left = append(left, object.Kind+"/"+object.Name)
		}
	}
	return &exitError{code: exitStalled, message: fmt.Sprintf("left in AWS: %s; left in the cluster: %s, NodeSync/%s. "+
		"Karpenter has its finalizers on these and takes them off once its controller runs and may ask EC2: have its ServiceAccount get a role again, and then\n  %s\n"+
		"Where the cluster is to go as well, delete it instead, and then\n  plumbline teardown --cluster-gone --cluster %s --region %s --account %s --sweep",
		report.String(), upTo(left, screenful), sync.Name, t.again(), t.v.cluster, t.v.region, report.Account)}
}
