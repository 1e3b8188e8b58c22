package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// maxPaces is the maximum number of NodePools whose pace is recorded: those with the most outdated nodes.
const maxPaces = 30

// measuredFrom is the share of a NodePool's outdated nodes, one in measuredFrom, that must be replaced before their pace
// counts as measured.
const measuredFrom = 10

// PaceSeen is what one look shows of a NodePool in which nodes must be replaced.
type PaceSeen struct {
	Pool string
	// Outdated is how many nodes must be replaced. Karpenter has started to replace Replacing of them.
	Outdated, Replacing int
	// AtATime is how many nodes the disruption budgets let Karpenter replace at a time, now or in the next window; 0 if
	// none, or if that is unknown.
	AtATime int
	// Launch is the duration of the fastest launch of the pool's nodes, and Decision how long Karpenter takes at least
	// to decide on one node; 0 if unknown, or if that does not matter.
	Launch, Decision time.Duration
	// Closed reports whether no node may be replaced now, and Opens when one next may; zero if that is unknown.
	Closed bool
	Opens  time.Time
	// Open are the periods of the next 30 days in which nodes may be replaced; nil if that is always.
	Open []plan.Window
	// Blocked is what nodes wait for that does not pass by itself: Budgets, Pods, Launches, Stopped or Karpenter; empty
	// if there is nothing.
	Blocked v1alpha1.RolloutLimit
}

// paused reports whether the current time does not count for the pace: no node can be replaced, whatever the nodes and
// their pods do.
func (s PaceSeen) paused() bool {
	switch s.Blocked {
	case v1alpha1.LimitBudgets, v1alpha1.LimitStopped, v1alpha1.LimitKarpenter:
		return true
	default:
		return s.Closed
	}
}

// Measure updates the record of how fast nodes are replaced. It changes only when one of the numbers does, or when nodes
// can no longer be replaced, or can again.
func Measure(before []v1alpha1.RolloutPace, seen []PaceSeen, now time.Time) []v1alpha1.RolloutPace {
	largest := slices.SortedFunc(slices.Values(seen), func(a, b PaceSeen) int {
		return cmp.Or(cmp.Compare(b.Outdated, a.Outdated), cmp.Compare(a.Pool, b.Pool))
	})
	var paces []v1alpha1.RolloutPace
	for _, s := range largest[:min(maxPaces, len(largest))] {
		if s.Outdated > 0 {
			paces = append(paces, s.measure(paceOf(before, s.Pool), now))
		}
	}
	slices.SortFunc(paces, func(a, b v1alpha1.RolloutPace) int { return cmp.Compare(a.Pool, b.Pool) })
	return paces
}

// paceOf returns the recorded pace of a NodePool; nil if there is none.
func paceOf(paces []v1alpha1.RolloutPace, pool string) *v1alpha1.RolloutPace {
	for i := range paces {
		if paces[i].Pool == pool {
			return paces[i].DeepCopy()
		}
	}
	return nil
}

// measure updates the pace of one NodePool; before is nil if it is new.
func (s PaceSeen) measure(before *v1alpha1.RolloutPace, now time.Time) v1alpha1.RolloutPace {
	at, outdated := metav1.NewTime(now).Rfc3339Copy(), int32(s.Outdated)
	p := v1alpha1.RolloutPace{Pool: s.Pool, Since: at, Nodes: outdated, Outdated: outdated}
	if before != nil {
		p = *before
	}
	switch paused := s.paused(); {
	case paused && p.ClosedSince == nil:
		p.ClosedSince = &at
	case !paused && p.ClosedSince != nil:
		p.ClosedSeconds += int64(max(0, now.Sub(p.ClosedSince.Time)).Seconds())
		p.ClosedSince = nil
	}
	switch {
	case outdated > p.Outdated: // Karpenter, or another commit, has found more
		p.Nodes += outdated - p.Outdated
	case outdated < p.Outdated:
		p.TookSeconds = int64(openFor(p, now).Seconds())
	}
	p.Outdated, p.AtATime = outdated, max(p.AtATime, int32(s.Replacing))
	return p
}

// openFor returns for how long nodes could be replaced since the measurement began.
func openFor(p v1alpha1.RolloutPace, now time.Time) time.Duration {
	until := now
	if p.ClosedSince != nil {
		until = p.ClosedSince.Time
	}
	return max(0, until.Sub(p.Since.Time)-time.Duration(p.ClosedSeconds)*time.Second)
}

// waited returns for how long nodes could be replaced since the newest one was, or since the measurement began.
func waited(p v1alpha1.RolloutPace, now time.Time) time.Duration {
	return max(0, openFor(p, now)-time.Duration(p.TookSeconds)*time.Second)
}

// left returns about how long the replacement of the remaining nodes takes, without the time in which none may be
// replaced. measured reports whether that is by the pace so far; otherwise it is the minimum by Karpenter's rules. It is
// 0 if nothing is known, or if the nodes take longer than expected.
func (s PaceSeen) left(p v1alpha1.RolloutPace, now time.Time) (left time.Duration, measured bool) {
	open, took := openFor(p, now), time.Duration(p.TookSeconds)*time.Second
	done := p.Nodes - p.Outdated
	// Nodes that are replaced together are complete together: a round counts once all of it is complete.
	if done == 0 || done*measuredFrom < p.Nodes || int(done) < s.Replacing {
		return max(0, s.least()-waited(p, now)), false
	}
	if int(p.AtATime) < s.AtATime { // not in rounds: the first one took as long as the others overlap
		took -= min(s.Launch, took/2)
	}
	// Even if as many nodes as ever were replaced at a time were complete now, the pace would be no faster than this.
	more := min(p.Outdated, max(1, p.AtATime))
	return max(0, times(took, p.Outdated, done)-waited(p, now), times(open, p.Outdated-more, done+more)), true
}

// times returns a duration times a fraction.
func times(d time.Duration, numerator, denominator int32) time.Duration {
	return time.Duration(float64(d) * float64(numerator) / float64(denominator))
}

// least returns the minimum time by Karpenter's rules: it replaces as many nodes at a time as the budgets allow, and
// each takes as long as a launch; and it decides on one after another. It is 0 if unknown.
func (s PaceSeen) least() time.Duration { return max(s.rounds(), s.decisions()) }

// rounds returns how long it takes to launch the replacements, as many at a time as the budgets allow.
func (s PaceSeen) rounds() time.Duration {
	return time.Duration(plan.Rounds(s.Outdated, s.AtATime)) * s.Launch
}

// decisions returns how long Karpenter takes to decide on each node; 0 if that is less than a minute.
func (s PaceSeen) decisions() time.Duration { return plan.Decisions(s.Outdated, s.Decision) }

// limit returns what limits the pace of a NodePool that is complete at a time; zero if that is unknown.
func (s PaceSeen) limit(p v1alpha1.RolloutPace, measured bool, ends time.Time) v1alpha1.RolloutLimit {
	byRounds := s.decisions() <= s.rounds()
	switch {
	case s.Blocked != "":
		return s.Blocked
	case s.Closed, len(s.Open) > 0 && ends.After(s.Open[0].To):
		return v1alpha1.LimitWindows
	case s.AtATime == 0, s.Outdated <= int(p.AtATime):
		return "" // its remaining nodes are replaced at once
	case int(p.AtATime) >= s.AtATime, !measured && byRounds && s.Outdated > s.AtATime:
		return v1alpha1.LimitBudgets
	case measured, !byRounds:
		return v1alpha1.LimitKarpenter
	}
	return ""
}

// horizon is how far ahead PaceSeen.Open is known.
const horizon = 30 * 24 * time.Hour

// after returns when nodes could be replaced for a time; zero if that is unknown. atLeast reports whether it is later,
// because no node may be replaced before the returned time.
func (s PaceSeen) after(now time.Time, left time.Duration) (ends time.Time, atLeast bool) {
	switch {
	case s.Open == nil && s.Closed && s.Opens.IsZero():
		return time.Time{}, false
	case s.Open == nil && s.Closed:
		return s.Opens.Add(left), false
	case s.Open == nil:
		return now.Add(left), false
	}
	var open time.Duration
	for _, w := range s.Open {
		from := w.From
		if now.After(from) {
			from = now
		}
		if lasts := w.To.Sub(from); lasts > 0 {
			if left <= lasts {
				return from.Add(left), false
			}
			open, left = open+lasts, left-lasts
		}
	}
	if open == 0 {
		return now.Add(horizon), true
	}
	// The periods after the horizon are like those before it.
	return now.Add(horizon + time.Duration(float64(horizon)*(float64(left)/float64(open)))), false
}

// expected is when a NodePool is expected to be complete.
type expected struct {
	pool     string
	outdated int
	// ends is the time; zero if it is unknown. atLeast reports whether it is the earliest possible one.
	ends    time.Time
	atLeast bool
	limit   v1alpha1.RolloutLimit
	// blocked reports whether nodes wait for something that does not pass by itself, and waited for how long none was
	// replaced.
	blocked bool
	waited  time.Duration
}

// expect returns when a NodePool is expected to be complete.
func (s PaceSeen) expect(p v1alpha1.RolloutPace, now time.Time) expected {
	e := expected{pool: s.Pool, outdated: s.Outdated, limit: s.Blocked, blocked: s.Blocked != "", waited: waited(p, now)}
	if e.blocked {
		if s.Blocked == v1alpha1.LimitKarpenter && p.ClosedSince != nil {
			e.waited = now.Sub(p.ClosedSince.Time)
		}
		return e
	}
	left, measured := s.left(p, now)
	if left > 0 || s.Closed {
		e.ends, e.atLeast = s.after(now, left)
		e.atLeast = e.atLeast || !measured
	}
	e.limit = s.limit(p, measured, e.ends)
	return e
}

// order sorts what is expected of NodePools: first those that are blocked, then those that are complete last.
func order(a, b expected) int {
	rank := func(e expected) int {
		switch {
		case e.blocked:
			return 0
		case !e.ends.IsZero():
			return 1
		}
		return 2
	}
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)), b.ends.Compare(a.ends), cmp.Compare(b.outdated, a.outdated), cmp.Compare(a.pool, b.pool),
	)
}

// Limit is spec.rollout.timeout of a rollout.
type Limit struct {
	// Since is when the rollout started, and Timeout is 0 if there is none.
	Since   time.Time
	Timeout time.Duration
}

// deadline returns when the timeout is exceeded; zero if there is none, or if it already is.
func (l Limit) deadline(now time.Time) time.Time {
	at := l.Since.Add(l.Timeout)
	if l.Timeout <= 0 || !now.Before(at) {
		return time.Time{}
	}
	return at
}

// Estimate returns when a rollout is expected to be complete, from the paces of its NodePools and what a look shows of
// them; nil if nothing indicates that. before is the previous estimate. again is when the rollout may be expected to
// exceed the timeout without any event; zero if it may not.
//
// The expected time is that of the NodePool that is complete last: by its measured pace once a tenth of its nodes was
// replaced, else the minimum by Karpenter's rules. It is unknown while nodes of a NodePool wait for something that does
// not pass by itself. It changes only by more than a fifth of the remaining time.
//
// A rollout is expected to exceed the timeout as soon as one of these is true of a NodePool:
//   - the minimum is later than the timeout
//   - the measured time is later than the timeout by more than a tenth of it
//   - its disruption budgets never allow a replacement
//   - it has waited for pods, launches or Karpenter for longer than the time that remains until the timeout
//
// It no longer is once the expected time is not later than the timeout.
func Estimate(
	before *v1alpha1.RolloutEstimate, paces []v1alpha1.RolloutPace, seen []PaceSeen, limit Limit, now time.Time,
) (next *v1alpha1.RolloutEstimate, again time.Time) {
	var all []expected
	for _, s := range seen {
		if p := paceOf(paces, s.Pool); p != nil {
			all = append(all, s.expect(*p, now))
		}
	}
	if len(all) == 0 {
		return nil, time.Time{}
	}
	slices.SortFunc(all, order)
	latest := all[0]
	next = &v1alpha1.RolloutEstimate{LimitedBy: latest.limit, Pool: latest.pool}
	if !latest.ends.IsZero() {
		next.AtLeast = slices.ContainsFunc(all, func(e expected) bool { return e.atLeast || e.ends.IsZero() })
		next.EndsAt = steadyTime(before, latest.ends, now)
	}
	next.ExceedsSince, next.ExceedsBy, again = compare(before, all, next.EndsAt, limit, now)
	if next.EndsAt == nil && next.LimitedBy == "" && next.ExceedsSince == nil {
		return nil, again
	}
	return next, again
}

const (
	// margin is the share of the timeout, one in margin, by which a measured time must exceed it.
	margin = 10
	// steadyShare is the share of the remaining time, one in steadyShare, by which an expected time must differ from the
	// previous one, and steadyFor is the minimum.
	steadyShare = 5
	steadyFor   = 2 * time.Minute
)

// steadyTime returns the previous expected time if it still applies, else the new one, in whole minutes.
func steadyTime(before *v1alpha1.RolloutEstimate, ends, now time.Time) *metav1.Time {
	if before != nil && before.EndsAt != nil && before.EndsAt.After(now) && negligible(ends.Sub(before.EndsAt.Time), ends.Sub(now)) {
		return before.EndsAt.DeepCopy()
	}
	at := metav1.NewTime(ends.Truncate(time.Minute).Add(time.Minute)).Rfc3339Copy()
	return &at
}

// negligible reports whether a difference is too small to report.
func negligible(difference, of time.Duration) bool {
	return difference.Abs() <= max(steadyFor, of/steadyShare)
}

// compare returns since when a rollout is expected to exceed the timeout, and by how much; nil if it is not, or if that is
// unknown. endsAt is when it is expected to be complete, nil if that is unknown. again is as of Estimate.
func compare(
	before *v1alpha1.RolloutEstimate, all []expected, endsAt *metav1.Time, limit Limit, now time.Time,
) (since *metav1.Time, by *metav1.Duration, again time.Time) {
	deadline, latest := limit.deadline(now), time.Time{}
	if deadline.IsZero() {
		return nil, nil, time.Time{}
	}
	for _, e := range all {
		if e.ends.After(latest) { // of those that are known
			latest = e.ends
		}
	}
	already := before != nil && before.ExceedsSince != nil
	exceeds := already && latest.IsZero()
	for _, e := range all {
		is, at := e.exceeds(deadline, limit.Timeout/margin, already, now)
		exceeds = exceeds || is
		if !at.IsZero() && (again.IsZero() || at.Before(again)) {
			again = at
		}
	}
	if !exceeds {
		return nil, nil, again
	}
	at := metav1.NewTime(now).Rfc3339Copy()
	if since = &at; already {
		since = before.ExceedsSince.DeepCopy()
	}
	if endsAt != nil {
		latest = endsAt.Time
	}
	return since, exceededBy(before, latest.Sub(deadline)), again
}

// exceeds reports whether a NodePool is expected to be complete after a deadline; already reports whether that was
// expected before. again is when it may be expected without any event; zero if it may not.
func (e expected) exceeds(deadline time.Time, margin time.Duration, already bool, now time.Time) (is bool, again time.Time) {
	remains := deadline.Sub(now)
	switch {
	case !e.ends.IsZero() && !e.atLeast && !already:
		return e.ends.After(deadline.Add(margin)), time.Time{}
	case !e.ends.IsZero():
		return e.ends.After(deadline), time.Time{}
	case e.limit == v1alpha1.LimitBudgets && e.blocked:
		return true, time.Time{}
	case e.limit == v1alpha1.LimitStopped, !e.blocked: // what is stopped is reported in another way
		return false, time.Time{}
	case already, e.waited >= remains:
		return true, time.Time{}
	}
	return false, now.Add((remains-e.waited)/2 + time.Second)
}

// exceededBy returns by how much a timeout is exceeded, rounded up; nil if it is not known to be.
func exceededBy(before *v1alpha1.RolloutEstimate, by time.Duration) *metav1.Duration {
	switch {
	case by <= 0:
		return nil
	case before != nil && before.ExceedsBy != nil && negligible(by-before.ExceedsBy.Duration, by):
		return before.ExceedsBy
	}
	unit := time.Minute
	for _, u := range []time.Duration{10 * time.Minute, time.Hour, day} {
		if by > u {
			unit = u
		}
	}
	return &metav1.Duration{Duration: (by + unit - 1).Truncate(unit)}
}

const day = 24 * time.Hour

// about formats a duration in days if it is longer than two.
func about(d time.Duration) string {
	if d >= 2*day {
		return fmt.Sprintf("%dd", d/day)
	}
	return plan.Short(d)
}

// Late describes that a rollout is expected to exceed spec.rollout.timeout, and what its nodes wait for; empty if it is
// not.
func Late(r v1alpha1.Rollout) string {
	e := r.Estimate
	if e == nil || e.ExceedsSince == nil {
		return ""
	}
	words := "will exceed rollout.timeout"
	if e.ExceedsBy != nil {
		words += " by " + about(e.ExceedsBy.Duration)
	}
	words += fmt.Sprintf(": %d of %d nodes ", r.Outdated, r.Nodes)
	wait := english.PluralWord(int(r.Outdated), "waits", "wait")
	what, waits := strings.CutPrefix(r.Message, "waits for ")
	switch {
	case waits:
		return words + wait + " for " + what
	case r.Message != "":
		return words + english.PluralWord(int(r.Outdated), "remains", "remain") + ": " + r.Message
	case limited(*e) != "":
		return words + wait + " for " + limited(*e)
	}
	return words + english.PluralWord(int(r.Outdated), "remains", "remain")
}

// limited describes what limits the NodePool of an estimate; empty if nothing is known to.
func limited(e v1alpha1.RolloutEstimate) string {
	of := fmt.Sprintf("%s/%s", render.NodePool, e.Pool)
	switch e.LimitedBy {
	case v1alpha1.LimitBudgets:
		return "disruption budgets of " + of
	case v1alpha1.LimitWindows:
		return "windows in which nodes of " + of + " may be replaced"
	case v1alpha1.LimitPods:
		return "pods on nodes of " + of
	case v1alpha1.LimitLaunches:
		return "launches of " + of
	case v1alpha1.LimitStopped:
		return of + ", in which the rollout is stopped"
	case v1alpha1.LimitWaves:
		return of + ", whose nodes are replaced in waves"
	case v1alpha1.LimitKarpenter:
		return "Karpenter, which replaces fewer nodes of " + of + " than its budgets allow"
	}
	return ""
}

// Expected describes when a rollout is expected to be complete, by which pace, and what limits it; empty if nothing
// indicates that.
func Expected(r v1alpha1.Rollout) string {
	e := r.Estimate
	if e == nil || e.EndsAt == nil && e.LimitedBy == "" {
		return ""
	}
	words := "complete at an unknown time"
	if e.EndsAt != nil {
		words = "complete about " + plan.ClockTime(e.EndsAt.Time, time.Time{})
		if e.AtLeast {
			words = "complete on " + plan.ClockTime(e.EndsAt.Time, time.Time{}) + " at the earliest"
		}
	}
	if p := paceOf(r.Paces, e.Pool); p != nil && p.TookSeconds > 0 && !e.AtLeast {
		took := about(time.Duration(p.TookSeconds) * time.Second)
		words += fmt.Sprintf(" (%s/%s: %d of %d nodes replaced in %s)", render.NodePool, p.Pool, p.Nodes-p.Outdated, p.Nodes, took)
	}
	if by := limited(*e); by != "" {
		words += "; limited by " + by
	}
	return words
}
