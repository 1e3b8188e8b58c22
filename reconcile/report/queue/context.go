package queue

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// ContextOf is plumbline/<cluster>/<name>, so that clusters on one repository never overwrite each
// other.
func ContextOf(cluster, nodeSync string) string { return "plumbline/" + cluster + "/" + nodeSync }

// setContext takes a context that has become known. The lanes of the former
// one stay until the commits that have a status in it are released: a status in a
// context that nobody writes any more would stay as it is for ever.
func (l *Ledger) setContext(s Update) {
	context := cmp.Or(s.Context, l.Context, s.Fallback)
	if context == l.Context {
		return
	}
	for i := range l.Lanes {
		for _, c := range l.Commits {
			if lane := &l.Lanes[i]; lane.Context == l.Context && c.Phase != Settled && c.State != report.Success && c.State != "" {
				lane.Moved = append(lane.Moved, c)
			}
		}
	}
	l.Context = context
	l.Commits = slices.DeleteFunc(l.Commits, func(c Commit) bool { return c.Phase != Told })
	for i := range l.Commits {
		l.Commits[i].Word = Word{} // nothing of it was reported in the new one
	}
}

// letGo gives the commits that have a word in a former context the final one, in
// that context. A commit that is still Head's and has failed is followed until it
// is well.
func (l *Ledger) letGo(s Update) {
	for i := range l.Lanes {
		lane := &l.Lanes[i]
		if lane.Context == l.Context || s.State == report.Pending {
			continue
		}
		for j := range lane.Moved {
			if c := &lane.Moved[j]; c.State != s.State {
				c.Word = Word{State: s.State, Description: report.Truncate(fmt.Sprintf("reported as %s now: %s", l.Context, s.Description))}
				lane.put(c.ID, c.Word, s.page(lane.Host), s.At)
			}
		}
		lane.Moved = slices.DeleteFunc(lane.Moved, func(c Commit) bool {
			known := l.commit(c.ID)
			return c.State == report.Success || known == nil || known.Phase != Told
		})
	}
	l.Lanes = slices.DeleteFunc(l.Lanes, func(lane Lane) bool {
		return lane.Context != l.Context && len(lane.Moved) == 0 && len(lane.Waiting) == 0
	})
}
