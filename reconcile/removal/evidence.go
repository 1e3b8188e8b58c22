package removal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/blocker"
)

// slowDrain is after how long of draining what keeps a node is looked for.
const slowDrain = time.Minute

// diagnose says why removals stand still, and what keeps nodes that drain slowly.
// It only reads; what cannot be read is left out, since a removal's progress
// never hangs on its diagnosis.
func (d *drive) diagnose(ctx context.Context) error {
	due := d.DiagnosedAt.IsZero() || d.Now.Before(d.DiagnosedAt) || !d.Now.Before(d.DiagnosedAt.Add(d.readAgain()))
	var unread []error
	for _, it := range d.open() {
		slow := it.drainsSlowly(d.Now)
		it.after.BreakGlass = nil
		switch {
		case it.after.Stalled != nil && it.after.Reason != ReasonNodeClaimsLeaving:
			it.after.Message, it.after.BreakGlass = Diagnose(it.after, it.seen, Evidence{})
		case it.after.Stalled == nil && !slow:
		case !due && (it.after.Stalled == nil || it.before.Stalled != nil):
			// What was found last stands until the next look.
			if it.before.Reason == it.after.Reason {
				it.after.Message, it.after.BreakGlass = it.before.Message, it.before.BreakGlass
			}
		default:
			d.result.DiagnosedAt = d.Now
			e, err := d.gather(ctx, it.kept(d.Now), it.after.RecordedAt.Time)
			if err != nil {
				unread = append(unread, fmt.Errorf("find out what keeps the nodes of %s/%s: %w", it.before.Kind, it.before.Name, err))
			}
			it.after.Message, it.after.BreakGlass = Diagnose(it.after, it.seen, e)
		}
	}
	return errors.Join(unread...)
}

// readAgain returns after how long what keeps nodes is read again, by the removal that a node has kept for the shortest time.
func (d *drive) readAgain() time.Duration {
	kept := time.Duration(math.MaxInt64)
	for _, it := range d.open() {
		if it.after.Stalled != nil || it.drainsSlowly(d.Now) {
			kept = min(kept, it.keptFor(d.Now))
		}
	}
	return blocker.ReadAgain(kept)
}

// keptFor is how long the first node that drains has been draining, or since when none has begun to.
func (it *item) keptFor(now time.Time) time.Duration {
	since := it.drainsSince()
	if since.IsZero() {
		since = it.after.LastProgress.Time
	}
	return now.Sub(since)
}

// drainsSlowly reports whether a NodeClaim of a removal has been ending for a while, or
// that EC2 does not take its termination.
func (it *item) drainsSlowly(now time.Time) bool {
	at := it.slowAt()
	if it.seen.idles(it.after, now) && len(it.seen.untouched()) > 0 {
		at = it.after.LastProgress.Add(idle)
	}
	return it.after.Reason == ReasonNodeClaimsLeaving && !at.IsZero() && !now.Before(at)
}

// slowAt is when what keeps its nodes is looked for; zero if none is ending.
func (it *item) slowAt() time.Time {
	since := it.drainsSince()
	if since.IsZero() {
		return since
	}
	at := since.Add(slowDrain)
	for _, c := range it.seen.NodeClaims {
		if refused := c.Drained.Add(blocker.RefusedAfter); !c.Drained.IsZero() && refused.Before(at) {
			at = refused
		}
	}
	return at
}

// drainsSince is since when the oldest of its NodeClaims is ending; zero if
// none is.
func (it *item) drainsSince() time.Time {
	var since time.Time
	for _, c := range it.seen.NodeClaims {
		if !c.Deleting.IsZero() && (since.IsZero() || c.Deleting.Before(since)) {
			since = c.Deleting
		}
	}
	return since
}

// wakeForDiagnosis asks for a reconcile when what keeps a node is to be looked for:
// no watch tells of budgets.
func (d *drive) wakeForDiagnosis(it *item) {
	since := it.drainsSince()
	switch {
	case it.after.Reason != ReasonNodeClaimsLeaving || since.IsZero() && !it.seen.idles(it.after, d.Now):
	case it.drainsSlowly(d.Now):
		d.wakeAt(d.result.DiagnosedAt.Add(blocker.ReadAgain(it.keptFor(d.Now)))) // of all, the soonest counts
	default:
		d.wakeAt(it.slowAt())
	}
}

// kept are the NodeClaims that hold the removal up: those that are terminating, which removal.maxUnavailable counts, or,
// if none is and Karpenter could begin to replace others, these.
func (it *item) kept(now time.Time) []Claim {
	terminating := slices.DeleteFunc(slices.Clone(it.seen.NodeClaims), func(c Claim) bool { return c.Deleting.IsZero() })
	if len(terminating) == 0 && it.seen.idles(it.after, now) {
		return it.seen.untouched()
	}
	return terminating
}

// gather looks into the nodes that have been leaving for longest, of a removal that began at a time.
func (d *drive) gather(ctx context.Context, oldest []Claim, began time.Time) (Evidence, error) {
	slices.SortFunc(oldest, func(a, b Claim) int {
		return cmp.Or(a.Deleting.Compare(b.Deleting), cmp.Compare(a.Name, b.Name))
	})
	look := blocker.Look{Reader: d.Live, DaemonSets: d.DaemonSets, Log: d.Log, Now: d.Now}
	if d.EC2 != nil {
		look.Protected = d.EC2.TerminationProtected
	}
	var nodes []blocker.Node
	for _, c := range oldest[:min(blocker.Most, len(oldest))] {
		nodes = append(nodes, blocker.Node{
			Claim: c.Name, Name: c.Node, ProviderID: c.ProviderID, Drained: c.Drained, Waits: c.Waits, Stays: c.Deleting.IsZero(),
			Since: began, Initialized: c.Initialized, Terminating: c.Ending, Finalizers: c.Finalizers,
		})
	}
	leader := *d.leads(ctx)
	found, err := look.At(ctx, nodes)
	return Evidence{Evidence: found, Leader: leader}, err
}
