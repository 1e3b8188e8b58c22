package pulls

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// crowded is the status of a head above the limit, and replaces that of an earlier plan.
var crowded = report.Word{State: report.Pending, Description: "waits: 50 open pull requests are planned, the newest of the repository, then of forks"}

// settle updates the open pull requests from the host's list. It drops what is recorded of those that are not listed
// any more.
func (r *repository) settle(listed []report.PullRequest, now time.Time) {
	maps.DeleteFunc(r.ours, func(number int, _ report.Comment) bool {
		return !slices.ContainsFunc(listed, func(p report.PullRequest) bool { return p.Number == number })
	})
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

// inOrder returns those that may be followed, by priority. Anyone can open one from a fork: it never displaces one of
// the repository, and the second one of an author never displaces the first one of another.
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
	return slices.Concat(own, byTurns(forks))
}

// byTurns sorts pull requests so that each author has one before any author has two, and so on. It is stable.
func byTurns(listed []report.PullRequest) []report.PullRequest {
	type turn struct {
		of  int
		one report.PullRequest
	}
	before := map[string]int{}
	turns := make([]turn, 0, len(listed))
	for _, one := range listed {
		turns = append(turns, turn{before[one.Author], one})
		before[one.Author]++
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.of, b.of) })
	sorted := make([]report.PullRequest, 0, len(turns))
	for _, t := range turns {
		sorted = append(sorted, t.one)
	}
	return sorted
}

// known returns a pull request with what is recorded of it.
func (r *repository) known(one report.PullRequest, before []*pull, now time.Time) *pull {
	next := &pull{of: r, since: now}
	if i := slices.IndexFunc(before, func(p *pull) bool { return p.Number == one.Number }); i >= 0 {
		next = before[i]
	}
	if next.Head != one.Head {
		next.word, next.notBefore, next.tries = report.Word{}, time.Time{}, 0
	}
	if i := slices.IndexFunc(before, func(p *pull) bool { return p.Head == one.Head && p.word.State != "" }); i >= 0 {
		next.word, next.page = before[i].word, cmp.Or(next.page, before[i].page)
	}
	next.PullRequest = one
	return next
}
