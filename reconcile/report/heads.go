package report

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Heads are the statuses for the open pull requests of one NodeSync.
type Heads struct {
	// Context is that of the statuses on the whole; the Subject adds its suffix.
	Context string
	// Of are those of each host. A host that is not among them gets no statuses any more.
	Of []HostHeads
	// At is the current time.
	At time.Time
}

// HostHeads are the open pull requests of one host.
type HostHeads struct {
	Host
	// Heads are those with a plan, the newest pull request first.
	Heads []Head
	// Unlisted is why the open ones are unknown; Heads are then the previous ones.
	Unlisted string
	// Comments are those that were written on pull requests, by their numbers: a host lists the first of many only, and one whose
	// text was edited has no marker any more.
	Comments map[int]Comment
}

// Head is the current commit of a pull request, its status, and the page that the status links to.
type Head struct {
	Commit string
	Word
	Page string
}

// RecordHeads records the statuses for pull requests, and writes them to the cluster if they are new. It drops those of
// commits that are no longer a head. It reports whether this changes what the NodeSync's status shows.
func (q *Queue) RecordHeads(ctx context.Context, sync *v1alpha1.NodeSync, h Heads) (changed bool, err error) {
	b := q.ledgerOf(ownerOf(sync, SubjectPlan))
	b.mu.Lock()
	defer b.mu.Unlock()
	reported := SubjectPlan.of(sync.Status.Reported)
	if err := b.open(ctx, reported); err != nil {
		return false, err
	}
	before := b.ledger.reported()
	if err := b.change(ctx, reported, func(l *Ledger) { l.recordHeads(h) }); err != nil {
		return false, err
	}
	q.wake()
	return !slices.Equal(before, b.ledger.reported()), nil
}

// Heads are those that something was reported of on a host, and the comments on pull requests there by their numbers, as a daemon
// before may have written them.
func (q *Queue) Heads(ctx context.Context, sync *v1alpha1.NodeSync, of Host) ([]Commit, map[int]Comment, error) {
	b := q.ledgerOf(ownerOf(sync, SubjectPlan))
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.open(ctx, SubjectPlan.of(sync.Status.Reported)); err != nil {
		return nil, nil, err
	}
	for i := range b.ledger.Lanes {
		if lane := &b.ledger.Lanes[i]; lane.is(of) {
			return slices.Clone(lane.Heads), maps.Clone(lane.Comments), nil
		}
	}
	return nil, nil, nil
}

// recordHeads records the statuses. Statuses that were already reported change nothing.
func (l *Ledger) recordHeads(h Heads) {
	context := SubjectPlan.Of(h.Context)
	l.Context, l.Head, l.Commits = context, "", nil
	l.Lanes = slices.DeleteFunc(l.Lanes, func(lane Lane) bool {
		return lane.Context != context || !slices.ContainsFunc(h.Of, func(of HostHeads) bool { return of.is(lane.Host) })
	})
	for _, of := range h.Of {
		key := laneKey{of.Provider, of.URL, context}
		lane := l.lane(key)
		if lane == nil {
			l.Lanes = append(l.Lanes, Lane{Host: of.Host, Context: context})
			lane = l.lane(key)
		}
		if lane.Secret != of.Secret {
			lane.retry()
		}
		lane.Secret, lane.Unlisted, lane.Comments = of.Secret, of.Unlisted, maps.Clone(of.Comments)
		lane.recordHeads(of.Heads, h.At)
	}
	l.bound(h.At)
}

func (l *Lane) recordHeads(heads []Head, at time.Time) {
	before := l.Heads
	l.Heads = nil
	for _, head := range heads {
		if slices.ContainsFunc(l.Heads, func(c Commit) bool { return c.ID == head.Commit }) {
			continue // two pull requests have the same head: the newest one counts
		}
		word := Word{State: head.State, Description: Truncate(head.Description)}
		l.Heads = append(l.Heads, Commit{ID: head.Commit, Word: word})
		known := slices.ContainsFunc(before, func(c Commit) bool { return c.ID == head.Commit && c.Word == word })
		if !known {
			l.put(head.Commit, word, head.Page, at)
		}
	}
	is := func(id string) bool {
		return slices.ContainsFunc(l.Heads, func(c Commit) bool { return c.ID == id })
	}
	l.Waiting = slices.DeleteFunc(l.Waiting, func(e Entry) bool { return !is(e.Commit) })
	for id := range l.Posted {
		if !is(id) {
			delete(l.Posted, id)
		}
	}
}

// hasPullRequestStatus reports whether a status was reported for a pull request.
func (l *Ledger) hasPullRequestStatus() bool {
	return slices.ContainsFunc(l.Lanes, func(lane Lane) bool { return len(lane.Heads) > 0 })
}
