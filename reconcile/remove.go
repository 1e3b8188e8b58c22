package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// remove records what has left the repository, and takes what an earlier pass
// has recorded one step further.
func (p *pass) remove(ctx context.Context) error {
	if !p.stages.CRDs.Ready {
		return nil // without a kind there is nothing to look at; the wait is noted
	}
	if err := p.takeBack(ctx); err != nil {
		return err
	}
	p.waitForOthers()
	if _, err := p.awaitRelabelled(ctx); err != nil {
		return err
	}
	p.recordCandidates()
	p.predate()
	return p.drive(ctx, terms{arrivals: p.arrivalsGate, successor: p.successorGate, pace: p.pace()})
}

// predate lets no removal be younger than what this pass has made: that is new to
// each of them. The times are those of two clocks, one of which may have jumped.
func (p *pass) predate() {
	for _, w := range p.applied.Written {
		made := w.Object.GetCreationTimestamp()
		if w.Action != plan.Create {
			continue
		}
		for i := range p.sync.Status.Removals {
			if r := &p.sync.Status.Removals[i]; made.Before(&r.RecordedAt) {
				r.RecordedAt = made
			}
		}
	}
}

// takeBack ends the removals of entries that Git has again. One whose object is
// not written yet keeps its record, and is not driven on.
func (p *pass) takeBack(ctx context.Context) error {
	pending := map[render.Ref]bool{}
	for _, c := range p.plan.Changes {
		pending[c.Ref] = true
	}
	for _, w := range p.applied.Written {
		delete(pending, w.Ref)
	}
	var back []types.UID
	for _, r := range p.plan.Returned {
		p.returned = append(p.returned, r)
		if pending[render.Ref{Kind: r.Kind, Name: r.Name}] {
			continue
		}
		back = append(back, r.UID)
	}
	// The record goes first: once the status lacks the removal, nobody would look
	// for it.
	if err := teardown.Unrecord(ctx, p.world(nil), p.sync, back...); err != nil {
		return err
	}
	p.sync.Status.Removals = slices.DeleteFunc(p.sync.Status.Removals, func(open v1alpha1.Removal) bool {
		if !slices.Contains(back, open.UID) {
			return false
		}
		p.Event("RemovalReverted", p.whyReturned(open))
		return true
	})
	return nil
}

// reasonVanished is that of a removal whose object somebody else has deleted.
const reasonVanished = "Vanished"

// whyReturned says why a removal has ended before its time.
func (p *pass) whyReturned(r v1alpha1.Removal) string {
	ref := render.Ref{Kind: r.Kind, Name: r.Name}
	for _, k := range p.plan.Kept {
		if k.Ref == ref {
			return k.Message
		}
	}
	if p.want.Set != nil && slices.ContainsFunc(p.want.Set.Objects, func(o render.Object) bool { return o.Ref == ref }) {
		return fmt.Sprintf("%s is in Git again and stays", ref)
	}
	return fmt.Sprintf("%s is another NodeSync's now, and stays", ref)
}

// notDriven says whether a removal stands still: Git has its entry again, or another
// NodeSync has it, or may have it.
func (p *pass) notDriven(r v1alpha1.Removal) bool {
	return slices.ContainsFunc(p.returned, func(back v1alpha1.Removal) bool { return back.UID == r.UID }) ||
		slices.ContainsFunc(p.plan.Kept, func(k plan.Kept) bool { return k.UID == r.UID })
}

// recordCandidates writes down what leaves, held or not. It is acted on once the
// record is read back.
func (p *pass) recordCandidates() {
	now := p.timestamp()
	for _, c := range p.plan.Removals {
		if c.Recorded {
			p.noteRevision(c)
			continue
		}
		removal := v1alpha1.Removal{
			Kind: c.Ref.Kind, Name: c.Ref.Name, UID: c.UID, Revision: c.Revision,
			RecordedAt: now, Phase: v1alpha1.RemovalPacing, Since: now, LastProgress: now,
			Remaining: int32(c.Nodes), Reason: c.Reason, Message: c.Message,
		}
		if c.Held {
			removal.Phase = v1alpha1.RemovalHeld
		}
		if c.Vanished {
			removal.Reason = reasonVanished
			p.Warn(reasonVanished, fmt.Sprintf("%s was deleted by hand, and Git has no entry for it: its %d NodeClaims have to end, and EC2 is asked for its instances", c.Ref, c.Nodes))
		}
		p.sync.Status.Removals = append(p.sync.Status.Removals, removal)
		p.wakeNow()
	}
}

// noteRevision notes for what is held since the branch was, or may have been, set back which revision
// lacks it, where it was set back once more.
func (p *pass) noteRevision(c plan.Candidate) {
	for i := range p.sync.Status.Removals {
		if r := &p.sync.Status.Removals[i]; r.UID == c.UID && heldAsOlder(c) {
			r.Revision = c.Revision
		}
	}
}

// holds are the removals that a person has to let go, by the object's UID.
func (p *pass) holds() map[types.UID]teardown.Hold {
	holds := map[types.UID]teardown.Hold{}
	for _, c := range p.plan.Removals {
		if c.Held {
			holds[c.UID] = teardown.Hold{Reason: c.Reason, Message: c.Message}
		}
	}
	return holds
}

// terms are on which removals go on.
type terms struct {
	arrivals, successor func(v1alpha1.Removal) teardown.Gate
	pace                teardown.Pace
}

// drive takes all removals that Git has not taken back one step further.
func (p *pass) drive(ctx context.Context, on terms) error {
	var driven, kept []v1alpha1.Removal
	for _, r := range p.sync.Status.Removals {
		if p.notDriven(r) {
			kept = append(kept, r)
			continue
		}
		driven = append(driven, r)
	}
	if len(driven) == 0 {
		return nil
	}
	cluster, region := p.clusterName()
	var aws Cloud
	if region != "" {
		client, err := p.clouds.in(ctx, region, p.DialCloud)
		if err != nil {
			return err
		}
		aws = impatient{client, p.cloudPatience()}
	}
	goesTo, err := p.policyStep().GoesTo(ctx)
	if err != nil {
		return err
	}
	result, err := teardown.Drive(ctx, p.world(aws), teardown.Pass{
		Now:         p.now,
		Sync:        p.before,
		Cluster:     cluster,
		StallAfter:  p.stallAfter(),
		AskEvery:    p.Settings.CloudInterval,
		AskedAt:     p.memory.cloudAskedAt,
		DiagnosedAt: p.memory.diagnosedAt,
		Absent:      p.memory.cloudAbsent,
		Controller:  p.controllerGate(),
		Cloud:       p.cloudGate(),
		Arrivals:    on.arrivals,
		Successor:   on.successor,
		Leader:      p.leaderGate,
		GoesTo:      goesTo,
		Pace:        on.pace,
		Holds:       p.holds(),
	}, driven)
	p.memory.cloudAskedAt, p.memory.cloudAbsent = result.AskedAt, result.Absent
	p.memory.diagnosedAt = result.DiagnosedAt
	p.reachPhases(driven, result.Removals)
	p.did.Removed = result.Deeds
	p.tellRemovals(result)
	unforgotten := p.forgetGone(ctx, result.Removals)
	p.sync.Status.Removals = append(kept, slices.DeleteFunc(result.Removals, func(r v1alpha1.Removal) bool {
		return r.Phase == v1alpha1.RemovalGone
	})...)
	if !result.Again.IsZero() {
		p.WakeBy(result.Again)
	}
	return errors.Join(err, unforgotten)
}

// reachPhases has each phase that a removal came to reach its point.
func (p *pass) reachPhases(before, after []v1alpha1.Removal) {
	for i, r := range after {
		if r.Phase != before[i].Phase {
			p.Points.Phase(r.Kind, string(r.Phase))
		}
	}
}

// tellRemovals says what was done for removals, NodeClaims by their number.
func (p *pass) tellRemovals(result teardown.Result) {
	ended := map[render.Ref]int{}
	for _, deed := range result.Deeds {
		ref := render.Ref{Kind: deed.Kind, Name: deed.Name}
		if _, isClaim := deed.Action.(teardown.DeleteNodeClaim); isClaim {
			ended[ref]++
			continue
		}
		p.Wrote(corev1.EventTypeNormal, "Removing", fmt.Sprintf("%s: %s", ref, deed.Action))
	}
	for ref, n := range ended {
		p.Wrote(corev1.EventTypeNormal, "Removing", fmt.Sprintf("%s: %d NodeClaims are deleted and drain", ref, n))
	}
	for _, r := range result.Removals {
		if r.Phase == v1alpha1.RemovalGone {
			p.Event("Removed", (render.Ref{Kind: r.Kind, Name: r.Name}).String()+" is gone"+proof(r))
		}
	}
	if result.Undiagnosed != nil {
		p.Warn("DiagnosisFailed", result.Undiagnosed.Error())
	}
}

// proof says what "gone" was proven by.
func proof(r v1alpha1.Removal) string {
	if r.Kind == render.NodePool {
		return ", and EC2 has ended every instance of it"
	}
	return ""
}

// waitForOthers notes what stays because of another NodeSync.
func (p *pass) waitForOthers() {
	for _, k := range p.plan.Kept {
		p.Wait("NodeSync/"+k.By, k.Message)
	}
}

// heldAsOlder says whether a candidate is held since HEAD is, or may be, older.
func heldAsOlder(c plan.Candidate) bool {
	return slices.Contains([]string{v1alpha1.ReasonOlderRevision, v1alpha1.ReasonHistoryUnknown}, c.Reason)
}
