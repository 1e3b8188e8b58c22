package pulls

import (
	"cmp"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
)

// crowded is reported of a head that no plan is made of, in place of what was planned before.
var crowded = queue.Word{State: report.Pending, Description: "waits: 50 open pull requests are planned, the newest of the repository, then of forks"}

// settle takes the open ones as the host has them now. What is known of those that it does not
// list any more is dropped.
func (r *repository) settle(listed []report.PullRequest, now time.Time) {
	before := r.pulls
	r.pulls = nil
	for i, one := range r.inOrder(listed) {
		next := r.known(one, before, now)
		switch {
		case i < most && next.waits:
			next.waits, next.basis, next.since = false, "", now
		case i >= most:
			if i >= 2*most && next.word.State == "" {
				continue
			}
			next.waits, next.word = true, crowded
		}
		r.pulls = append(r.pulls, next)
	}
}

// inOrder are those that may be followed. Who opens one from a fork may be anyone: it takes no place of one of the
// repository.
func (r *repository) inOrder(listed []report.PullRequest) []report.PullRequest {
	var own, forks []report.PullRequest
	for _, one := range listed {
		switch {
		case !one.Fork:
			own = append(own, one)
		case r.forks:
			forks = append(forks, one)
		}
	}
	return slices.Concat(own, forks)
}

// known is one with what is known of it.
func (r *repository) known(one report.PullRequest, before []*pull, now time.Time) *pull {
	next := &pull{of: r, since: now}
	if i := slices.IndexFunc(before, func(p *pull) bool { return p.Number == one.Number }); i >= 0 {
		next = before[i]
	}
	if next.Head != one.Head {
		next.word, next.notBefore, next.tries = queue.Word{}, time.Time{}, 0
	}
	if i := slices.IndexFunc(before, func(p *pull) bool { return p.Head == one.Head && p.word.State != "" }); i >= 0 {
		next.word, next.page = before[i].word, cmp.Or(next.page, before[i].page)
	}
	next.PullRequest = one
	return next
}
