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

// slowDrain is how long a node drains before it is diagnosed.
const slowDrain = time.Minute

// diagnose explains why removals are stalled, and what blocks nodes that drain slowly. It only reads, and skips what
// cannot be read: a removal's progress never depends on its diagnosis.
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
			// The last result remains until the next diagnosis.
			if it.before.Reason == it.after.Reason {
				it.after.Message, it.after.BreakGlass = it.before.Message, it.before.BreakGlass
			}
		default:
			d.result.DiagnosedAt = d.Now
			e, err := d.gather(ctx, it.blockingClaims(d.Now), it.after.RecordedAt.Time)
			if err != nil {
				unread = append(unread, fmt.Errorf("find out what keeps the nodes of %s/%s: %w", it.before.Kind, it.before.Name, err))
			}
			it.after.Message, it.after.BreakGlass = Diagnose(it.after, it.seen, e)
		}
	}
	return errors.Join(unread...)
}

// readAgain returns the interval between two diagnoses, determined by the removal that has been blocked for the
// shortest time.
func (d *drive) readAgain() time.Duration {
	kept := time.Duration(math.MaxInt64)
	for _, it := range d.open() {
		if it.after.Stalled != nil || it.drainsSlowly(d.Now) {
			kept = min(kept, it.keptFor(d.Now))
		}
	}
	return blocker.ReadAgain(kept)
}

// keptFor returns how long the oldest terminating NodeClaim has been terminating or, if there is none, the time since
// the last progress.
func (it *item) keptFor(now time.Time) time.Duration {
	since := it.drainsSince()
	if since.IsZero() {
		since = it.after.LastProgress.Time
	}
	return now.Sub(since)
}

// drainsSlowly reports whether a NodeClaim of a removal has been terminating for a while, or EC2 does not accept its
// termination.
func (it *item) drainsSlowly(now time.Time) bool {
	at := it.slowAt()
	if it.seen.isIdle(it.after, now) && len(it.seen.untouched()) > 0 {
		at = it.after.LastProgress.Add(idleTimeout)
	}
	return it.after.Reason == ReasonNodeClaimsLeaving && !at.IsZero() && !now.Before(at)
}

// slowAt returns when its nodes are diagnosed; zero if none is terminating.
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

// drainsSince returns when the oldest terminating NodeClaim was deleted; zero if none is terminating.
func (it *item) drainsSince() time.Time {
	var since time.Time
	for _, c := range it.seen.NodeClaims {
		if !c.Deleting.IsZero() && (since.IsZero() || c.Deleting.Before(since)) {
			since = c.Deleting
		}
	}
	return since
}

// wakeForDiagnosis requests a reconcile for the next diagnosis: there is no watch on PodDisruptionBudgets.
func (d *drive) wakeForDiagnosis(it *item) {
	since := it.drainsSince()
	switch {
	case it.after.Reason != ReasonNodeClaimsLeaving || since.IsZero() && !it.seen.isIdle(it.after, d.Now):
	case it.drainsSlowly(d.Now):
		d.wakeAt(d.result.DiagnosedAt.Add(blocker.ReadAgain(it.keptFor(d.Now)))) // the earliest time of all removals applies
	default:
		d.wakeAt(it.slowAt())
	}
}

// blockingClaims returns the NodeClaims that block the removal: those that are terminating, which
// removal.maxUnavailable counts, or, if there are none and Karpenter could start to replace others, these.
func (it *item) blockingClaims(now time.Time) []Claim {
	terminating := slices.DeleteFunc(slices.Clone(it.seen.NodeClaims), func(c Claim) bool { return c.Deleting.IsZero() })
	if len(terminating) == 0 && it.seen.isIdle(it.after, now) {
		return it.seen.untouched()
	}
	return terminating
}

// gather reads what blocks the nodes that have been terminating for longest, for a removal that began at a time.
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
			Claim: c.Name, Name: c.Node, ProviderID: c.ProviderID, Drained: c.Drained, Deadline: c.Deadline, Waits: c.Waits,
			Stays: c.Deleting.IsZero(),
			Since: began, Initialized: c.Initialized, Terminating: c.TerminationAccepted, Finalizers: c.Finalizers,
		})
	}
	leader := *d.leaderGateOnce(ctx)
	found, err := look.At(ctx, nodes)
	return Evidence{Evidence: found, Leader: leader}, err
}
