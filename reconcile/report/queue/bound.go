package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

const (
	// mostWaiting is how many statuses of one NodeSync wait at most, over all
	// hosts, so that a ConfigMap holds them: one is well below a kilobyte.
	mostWaiting = 800
	// mostOvertaken is how many commits are kept that wait for the final word of
	// what overtook them.
	mostOvertaken = 100
)

// bound drops the oldest where a host has been away for so long, or no verdict
// has been final over so many commits, that the ledger would not fit any more.
func (l *Ledger) bound(now time.Time) {
	overtaken := 0
	l.Commits = slices.DeleteFunc(l.Commits, func(c Commit) bool {
		if c.Phase != Overtaken {
			return false
		}
		if overtaken++; overtaken <= mostOvertaken {
			return false
		}
		for i := range l.Lanes {
			if lane := &l.Lanes[i]; lane.Context == l.Context {
				lane.put(c.ID, Word{State: report.Failure, Description: "superseded before it came to an end"}, "", now)
			}
		}
		return true
	})
	for i := range l.Lanes {
		lane, share := &l.Lanes[i], mostWaiting/len(l.Lanes)
		if over := len(lane.Waiting) - share; over > 0 {
			lane.Waiting = slices.Delete(lane.Waiting, 0, over)
			lane.Lost = fmt.Sprintf("more than %d commit statuses wait for %s: the oldest were given up", share, lane.URL)
		}
	}
}
