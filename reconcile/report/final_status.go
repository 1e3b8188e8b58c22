package report

import (
	"context"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// FinalStatusPatience is how long a NodeSync that is being deleted waits for its Git hosts
// to take the last word. It goes then in any case: a host that is away keeps nobody.
const FinalStatusPatience = 30 * time.Second

// FinalStatus is the last word on a NodeSync's commits.
type FinalStatus struct {
	// Description says what has become of the nodes.
	Description string
	// Page is where a status on a commit links to.
	Page func(h Host, commit string) string
	// At is now.
	At time.Time
}

// PostFinalStatus notes the last word on a NodeSync that is being deleted, once, on each subject, and
// reports whether the hosts have it, or are waited for no longer. The queue goes with the
// NodeSync.
func (q *Queue) PostFinalStatus(ctx context.Context, sync *v1alpha1.NodeSync, f FinalStatus) (done bool, err error) {
	done = true
	for _, subject := range subjects() {
		heard, err := q.postFinal(ctx, sync, subject, f)
		if err != nil {
			return false, err
		}
		done = done && heard
	}
	return done, nil
}

func (q *Queue) postFinal(ctx context.Context, sync *v1alpha1.NodeSync, subject Subject, f FinalStatus) (done bool, err error) {
	b := q.book(ownerOf(sync, subject))
	b.mu.Lock()
	defer b.mu.Unlock()
	reported := subject.of(sync.Status.Reported)
	if err := b.open(ctx, reported); err != nil {
		return false, err
	}
	if b.ledger.heard(f.At) {
		return true, nil
	}
	if err := b.change(ctx, reported, func(l *Ledger) { l.finish(f) }); err != nil {
		return false, err
	}
	q.wake()
	return b.ledger.heard(f.At), nil
}

// noPlans is the last word on pull requests.
var noPlans = Word{State: Success, Description: "the NodeSync is deleted: nothing is planned any more"}

// finish gives the newest commit the last word, and each that is still pending.
func (l *Ledger) finish(f FinalStatus) {
	if !l.FinalStatusAt.IsZero() {
		return
	}
	l.FinalStatusAt = f.At
	last := Word{State: Success, Description: Truncate(f.Description)}
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

// heard reports whether nothing is to be waited for: no commit was ever spoken of, the
// hosts have the last word, they refuse the Secret, or it has taken too long.
func (l *Ledger) heard(now time.Time) bool {
	switch {
	case len(l.Commits) == 0 && !l.plans() || len(l.Lanes) == 0:
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
