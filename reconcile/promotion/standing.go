package promotion

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// standing is what a commit is worth in a ring before.
type standing struct {
	ring *Ring
	// members counts the clusters of the ring, without those that an earlier commit retired.
	members int
	// failed are those on which the commit failed, silent those without a record to rely on, missing those that have
	// not succeeded on it yet.
	failed, silent, missing []Member
	// problem and silentSince are those of the first silent one.
	problem     string
	silentSince time.Time
	// good are the clusters that succeeded.
	good []success
	// ran is true if a cluster succeeded on the commit itself.
	ran bool
}

// success is the first success of a cluster on a commit or a descendant of it, in its record.
type success struct {
	record *Record
	*Verdict
}

// soak is a time at which a cluster succeeded, and when the soak that rings.yaml wants is over.
type soak struct{ reached, until time.Time }

// soaks returns the soak of each cluster of a ring before that succeeded.
func (c *candidate) soaks(s standing) []soak {
	key := soakKey{c.standingKey(s.ring), c.applied}
	all, known := c.bySoak[key]
	if !known {
		for _, at := range s.good {
			all = append(all, soak{at.Since, c.soakedAt(at.record, at.Verdict)})
		}
		c.bySoak[key] = all
	}
	return all
}

// soaked returns when enough clusters of a ring before have soaked, with at least a floor, and when the last of these
// succeeded.
func (c *candidate) soaked(s standing) (reached, until time.Time) {
	floor, good := c.floor.MinSoak, slices.Clone(c.soaks(s))
	for i, g := range good {
		if least := g.reached.Add(floor); least.After(g.until) {
			good[i].until = least
		}
	}
	slices.SortFunc(good, func(a, b soak) int { return cmp.Or(a.until.Compare(b.until), a.reached.Compare(b.reached)) })
	if n := s.needed(); n > 0 {
		return good[n-1].reached, good[n-1].until
	}
	return time.Time{}, time.Time{}
}

// needed returns how many clusters must have succeeded.
func (s standing) needed() int { return (s.members*s.ring.AtLeast + 99) / 100 }

// standingKey is what the standing depends on, in one View, and soakKey what the soaks depend on.
type (
	standingKey struct {
		own, before, then *Ring
		commit            *Commit
		floor             Floor
	}
	soakKey struct {
		standingKey
		applied *Commit
	}
)

func (c *candidate) standingKey(before *Ring) standingKey {
	return standingKey{own: c.own, before: before, then: c.then, commit: c.Commit, floor: c.floor}
}

// standing returns what the commit is worth in a ring before.
func (c *candidate) standing(before *Ring) standing {
	key := c.standingKey(before)
	s, known := c.standings[key]
	if !known {
		s = c.newStanding(before)
		c.standings[key] = s
	}
	return s
}

func (c *candidate) newStanding(before *Ring) standing {
	s := standing{ring: before}
	for _, m := range before.Members {
		if !c.counts(m) {
			continue
		}
		s.members++
		record := c.records[m].Record
		switch {
		case c.failedOn(m):
			s.failed = append(s.failed, m)
			continue
		case c.isSilent(m):
			s.addSilent(m, c.records[m])
			continue
		}
		at := c.success(record)
		if at == nil {
			s.missing = append(s.missing, m)
			continue
		}
		itself := record.Of(c.Hash)
		s.ran = s.ran || itself != nil && itself.State == Succeeded
		s.good = append(s.good, success{record, at})
	}
	return s
}

// counts reports whether a cluster counts in a ring before: unless it is retired and the commit has not failed there.
func (c *candidate) counts(m Member) bool { return c.failedOn(m) || !c.retired(m) }

func (c *candidate) failedOn(m Member) bool {
	record := c.records[m].Record
	if record == nil {
		return false
	}
	v := record.Of(c.Hash)
	return v != nil && v.State == Failed
}

func (c *candidate) isSilent(m Member) bool {
	record := c.records[m].Record
	return record == nil || c.now.Sub(record.At) > c.rings.SilentAfter
}

func (s *standing) addSilent(m Member, of Standing) {
	s.silent = append(s.silent, m)
	if len(s.silent) > 1 {
		return
	}
	switch {
	case of.Record != nil:
		s.silentSince, s.problem = of.Record.At, "its newest one is of "+of.Record.At.UTC().Format("2006-01-02 15:04 UTC")
	case of.Problem != "":
		s.problem = of.Problem
	default:
		s.problem = "it has not reported yet"
	}
}

// RetiredAfter is how long a cluster must be silent before a commit that removes it from the rings frees later commits from
// it: long enough that nobody can make use of an outage to skip a ring.
const RetiredAfter = 24 * time.Hour

// retired reports whether an earlier commit moved a member out of the rings before, or removed it, and this cluster need
// not wait for the member any more: it has never reported, has been silent for RetiredAfter, or succeeded on such a commit
// as long ago as that commit itself would have to soak.
func (c *candidate) retired(m Member) bool {
	if c.then == nil || c.parent.precedes(m, c.me) {
		return false
	}
	of := c.records[m]
	if of.Record == nil {
		return of.Problem == ""
	}
	if c.isSilent(m) && c.now.Sub(of.Record.At) > RetiredAfter {
		return true
	}
	soak := max(c.own.Soak, c.floor.MinSoak)
	return slices.ContainsFunc(of.Record.Verdicts, func(v Verdict) bool {
		at := c.history.Get(v.Commit)
		return at != nil && v.State == Succeeded && !v.Since.Add(soak).After(c.now) && c.history.Contains(c.Parents[0], v.Commit) &&
			at.Rings != nil && at.Rings.Of(c.me) != nil && !at.Rings.precedes(m, c.me)
	})
}

// precedes reports whether a member is in a ring before that of another one.
func (r *Rings) precedes(m, other Member) bool {
	at, in := r.of[m]
	return in && slices.Contains(r.Of(other).Before, at)
}

// success returns the earliest success on the commit or on a descendant of it; nil if there is none.
func (c *candidate) success(record *Record) *Verdict { return firstSuccess(c.history, record, c.Hash) }

func firstSuccess(history *History, record *Record, commit string) *Verdict {
	if record == nil {
		return nil
	}
	var first *Verdict
	lost := slices.ContainsFunc(record.Unlisted, func(failed string) bool { return history.Contains(failed, commit) })
	for i := range record.Verdicts {
		v := &record.Verdicts[i]
		if v.State != Succeeded || v.Commit != commit && (lost || v.Reverted || !history.Contains(v.Commit, commit)) {
			continue
		}
		if first == nil || v.Since.Before(first.Since) {
			first = v
		}
	}
	return first
}

// soakedAt returns when everything has soaked on a cluster that this one gets with the commit: each commit up to the
// successful one that the applied one does not contain.
func (c *candidate) soakedAt(record *Record, success *Verdict) time.Time {
	until := success.Since
	for i := range record.Verdicts {
		v := &record.Verdicts[i]
		contained := c.history.Get(v.Commit) == nil || c.history.Contains(success.Commit, v.Commit) // of an unknown one it may be
		if v.State != Succeeded || !contained || c.applied != nil && c.history.Contains(c.applied.Hash, v.Commit) {
			continue
		}
		if at := v.Since.Add(c.own.soak(v.Effect)); at.After(until) {
			until = at
		}
	}
	return until
}

// peers is what the other clusters of a ring do with a commit.
type peers struct {
	// failed are the clusters on which it failed.
	failed []Member
	// queue has the clusters that report, and have not succeeded on it or a descendant, or roll out a commit now: first
	// those that do, then those furthest behind.
	queue []Member
}

type peersKey struct {
	ring   *Ring
	commit *Commit
}

// peers returns what the clusters of the own ring do with the commit.
func (c *candidate) peers() peers {
	key := peersKey{c.own, c.Commit}
	p, known := c.byRing[key]
	if !known {
		p = c.newPeers()
		c.byRing[key] = p
	}
	return p
}

func (c *candidate) newPeers() (p peers) {
	places := map[Member]place{}
	for _, m := range c.own.Members {
		if c.failedOn(m) {
			p.failed = append(p.failed, m)
		}
		if c.isSilent(m) || c.isDone(m) {
			continue // a silent one takes nothing
		}
		places[m] = placeOf(c.records[m].Record)
		p.queue = append(p.queue, m)
	}
	slices.SortFunc(p.queue, func(a, b Member) int {
		x, y := places[a], places[b]
		if x.rolls != y.rolls {
			if x.rolls {
				return -1
			}
			return 1
		}
		return cmp.Or(x.succeeded.Compare(y.succeeded), strings.Compare(a.String(), b.String()))
	})
	return p
}

// isDone reports whether a cluster has succeeded on the commit or a descendant, and rolls out nothing.
func (c *candidate) isDone(m Member) bool {
	record := c.records[m].Record
	return record != nil && !placeOf(record).rolls && c.success(record) != nil
}

// place is what the place of a cluster in the queue depends on.
type place struct {
	rolls     bool
	succeeded time.Time
}

func placeOf(record *Record) (p place) {
	for _, v := range record.Verdicts {
		p.rolls = p.rolls || v.State == InProgress
		if v.State == Succeeded && p.succeeded.IsZero() {
			p.succeeded = v.Since
		}
	}
	return p
}
