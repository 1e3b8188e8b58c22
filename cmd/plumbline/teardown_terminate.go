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

	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	ending "github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

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
func (s *stranding) due(found []ending.Stranded, now time.Time, after time.Duration) (due []ending.Stranded) {
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

// settled says that nothing goes on by itself any more: all NodeClaims that are left are of instances that were
// handled a while ago.
func (s *stranding) settled(found []ending.Stranded, busy int, now time.Time, after time.Duration) bool {
	waits := func(one ending.Stranded) bool { return one.Claim != "" && !s.handled[one.ID] }
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
func (t *teardown) findStranded(ctx context.Context, sync *v1alpha1.NodeSync, l *teardownPlan) (found []ending.Stranded, busy int, err error) {
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
	noted, err := ending.Noted(ctx, t.c, sync)
	if err != nil {
		return nil, 0, explain(err, "read the record of removals")
	}
	gone, err := t.findController(ctx, sync, l)
	if err != nil {
		return nil, 0, err
	}
	by := ending.Standing{Pools: map[string]bool{}, Ready: readyNodes(nodes.Items), Noted: noted, Runs: gone == nil}
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
	found, busy = ending.Strands(l.withoutOthers(claims.Items), by)
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
func (t *teardown) endDue(ctx context.Context, sync *v1alpha1.NodeSync, l *teardownPlan, due []ending.Stranded) error {
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
func strandedWords(one ending.Stranded) string {
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
func (t *teardown) unfinished(ctx context.Context, sync *v1alpha1.NodeSync, found []ending.Stranded) error {
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
