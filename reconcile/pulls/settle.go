package pulls

import (
	"cmp"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// overLimit is the status of a head above the limit, and replaces that of an earlier plan.
var overLimit = report.Word{
	State: report.Pending, Description: "waits: 50 open pull requests are planned, the newest of the repository, then of forks",
}

// maxOurs is how many comments of one repository are remembered at most, unless more pull requests are listed.
const maxOurs = 1000

// settle updates the open pull requests from the host's list. Of those that are no longer listed, it keeps only what is
// needed to find their comments.
func (r *repository) settle(listed []report.PullRequest, now time.Time) {
	r.forget(listed)
	before := r.pulls
	r.pulls = nil
	for i, one := range r.inOrder(listed) {
		next := r.known(one, before, now)
		switch {
		case i < maxFollowed && next.waits:
			next.waits, next.basis, next.since = false, "", now
		case i >= maxFollowed:
			if i >= 2*maxFollowed && next.word.State == "" {
				continue
			}
			next.waits, next.word, next.uncommented = true, overLimit, ""
		}
		r.pulls = append(r.pulls, next)
	}
}

// forget drops the texts of comments on pull requests that are not listed. Above the limit it also drops these
// comments, those with the lowest numbers first. The others are kept because a pull request can be reopened, and a host
// lists only the first of many comments.
func (r *repository) forget(listed []report.PullRequest) {
	open := map[int]bool{}
	for _, one := range listed {
		open[one.Number] = true
	}
	var closed []int
	for number, one := range r.ours {
		if !open[number] {
			closed = append(closed, number)
			r.ours[number] = report.Comment{ID: one.ID, Thread: one.Thread}
		}
	}
	slices.Sort(closed)
	for _, number := range closed[:min(len(closed), max(0, len(r.ours)-maxOurs))] {
		delete(r.ours, number)
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
	return slices.Concat(own, byAuthorInTurn(forks))
}

// byAuthorInTurn sorts pull requests so that each author has one before any author has two, and so on. It is stable.
func byAuthorInTurn(listed []report.PullRequest) []report.PullRequest {
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
