package report

import (
	"context"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// FinalStatusPatience is how long the deletion of a NodeSync waits for its Git hosts to accept the final status. After
// that it continues in any case, so that an unreachable host does not block it.
const FinalStatusPatience = 30 * time.Second

// FinalStatus is the final status for a NodeSync's commits.
type FinalStatus struct {
	// Description says what happened to the nodes, and Unapplied the same for a commit that was not applied in whole.
	Description, Unapplied string
	// Page returns the page that a status on a commit links to.
	Page func(h Host, commit string) string
	// At is the current time.
	At time.Time
}

// PostFinalStatus queues the final status of a NodeSync that is being deleted, once for each subject. It reports
// whether the hosts have received it or are no longer waited for. The queue is deleted with the NodeSync.
func (q *Queue) PostFinalStatus(ctx context.Context, sync *v1alpha1.NodeSync, f FinalStatus) (done bool, err error) {
	applied, err := q.appliedHead(ctx, sync)
	if err != nil {
		return false, err
	}
	done = true
	for _, subject := range subjects() {
		heard, err := q.postFinal(ctx, sync, subject, applied, f)
		if err != nil {
			return false, err
		}
		done = done && heard
	}
	return done, nil
}

// appliedHead returns the newest commit that is reported as applied in whole; empty if the newest one is not.
func (q *Queue) appliedHead(ctx context.Context, sync *v1alpha1.NodeSync) (string, error) {
	b := q.ledgerOf(ownerOf(sync, SubjectApplied))
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.open(ctx, SubjectApplied.of(sync.Status.Reported)); err != nil {
		return "", err
	}
	if newest := b.ledger.newest(); newest != nil && newest.State == Success {
		return b.ledger.Head, nil
	}
	return "", nil
}

// postFinal queues the final status for one subject. applied is the newest commit that was applied; empty if there is
// none.
func (q *Queue) postFinal(
	ctx context.Context, sync *v1alpha1.NodeSync, subject Subject, applied string, f FinalStatus,
) (done bool, err error) {
	b := q.ledgerOf(ownerOf(sync, subject))
	b.mu.Lock()
	defer b.mu.Unlock()
	reported := subject.of(sync.Status.Reported)
	if err := b.open(ctx, reported); err != nil {
		return false, err
	}
	if b.ledger.finalStatusDone(f.At) {
		return true, nil
	}
	if err := b.change(ctx, reported, func(l *Ledger) { l.finish(subject == SubjectPlan || l.Head == applied, f) }); err != nil {
		return false, err
	}
	q.wake()
	return b.ledger.finalStatusDone(f.At), nil
}

// noPlans is the final status for pull requests.
var noPlans = Word{State: Success, Description: "the NodeSync is deleted: nothing is planned any more"}

// finish gives the final status to the newest commit, and to each one that is still pending: it is a failure unless the
// newest one was applied.
func (l *Ledger) finish(applied bool, f FinalStatus) {
	if !l.FinalStatusAt.IsZero() {
		return
	}
	l.FinalStatusAt = f.At
	last := Word{State: Success, Description: Truncate(f.Description)}
	if !applied {
		last = Word{State: Failure, Description: Truncate(f.Unapplied)}
	}
	newest := l.newest()
	for i := range l.Commits {
		c := &l.Commits[i]
		if c.Word == last || c.final() && c != newest {
			continue
		}
		c.Word = last
		for j := range l.Lanes {
			if lane := &l.Lanes[j]; lane.Context == l.Context {
				lane.put(c.ID, last, f.Page(lane.Host, c.ID), f.At)
			}
		}
	}
	for i := range l.Lanes {
		lane := &l.Lanes[i]
		for _, c := range lane.Heads {
			if c.State != Success {
				lane.put(c.ID, noPlans, f.Page(lane.Host, c.ID), f.At)
			}
		}
		for _, c := range lane.Moved {
			if c.State != Success {
				lane.put(c.ID, last, f.Page(lane.Host, c.ID), f.At)
			}
		}
		lane.Moved = nil
	}
}

// finalStatusDone reports whether there is nothing to wait for: there was never a status for a commit, the hosts have
// the final status, they reject the Secret, or it has taken too long.
func (l *Ledger) finalStatusDone(now time.Time) bool {
	switch {
	case len(l.Commits) == 0 && !l.hasPullRequestStatus() || len(l.Lanes) == 0:
		return true
	case l.FinalStatusAt.IsZero():
		return false
	case now.Before(l.FinalStatusAt), !now.Before(l.FinalStatusAt.Add(FinalStatusPatience)):
		return true
	}
	for i := range l.Lanes {
		if lane := &l.Lanes[i]; len(lane.Waiting) > 0 && lane.Refused == "" {
			return false
		}
	}
	return true
}
