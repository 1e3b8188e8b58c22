package promotion

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Floor is what the NodeSync itself requires, whatever rings.yaml says.
type Floor struct {
	// Ring is the ring that the cluster must be in.
	Ring string
	// MinSoak is how long a commit must at least have been good in each ring before.
	MinSoak time.Duration
}

// Reason is what a commit waits for.
type Reason string

// The values of Reason.
const (
	// WaitsForRing: not enough clusters of a ring before have succeeded on the commit or a descendant of it.
	WaitsForRing Reason = "WaitsForRing"
	// FailedInRing: the commit failed on a cluster of a ring before, or of the own ring. It is not taken any more.
	FailedInRing Reason = "FailedInRing"
	// ClusterSilent: a cluster of a ring before has no record that is new enough, or one that proves nothing.
	ClusterSilent Reason = "ClusterSilent"
	// NeverRun: the clusters of a ring directly before took a newer commit instead.
	NeverRun Reason = "NeverRun"
	// Soaking: the rings before have succeeded, but not for long enough.
	Soaking Reason = "Soaking"
	// WindowClosed: the ring takes commits in its windows only.
	WindowClosed Reason = "WindowClosed"
	// WaitsForTurn: as many clusters of the own ring as may take a commit at one time come first.
	WaitsForTurn Reason = "WaitsForTurn"
	// RingPaused: the own ring is paused.
	RingPaused Reason = "RingPaused"
	// RingsInvalid: the commit has no valid rings.yaml. Taking it would leave the cluster without a gate.
	RingsInvalid Reason = "RingsInvalid"
	// NothingBefore: no ring comes before the own one, but spec.promotion.minSoak requires one.
	NothingBefore Reason = "NothingBefore"
)

// Wait is what one commit waits for on one cluster.
type Wait struct {
	Commit string
	Reason Reason
	// Ring is the ring that it waits for.
	Ring string
	// Members are the clusters that it waits for, sorted.
	Members []Member
	// Since and Until are when the wait began and ends; zero if unknown.
	Since, Until time.Time
	// Message says it in one line that does not change by itself.
	Message string
}

// Passed is why a commit may be taken.
type Passed string

// The values of Passed.
const (
	// PassedRings: every ring before has succeeded, and the commit has soaked.
	PassedRings Passed = "Rings"
	// PassedRevert: the commit returns to definitions on which the cluster had succeeded before.
	PassedRevert Passed = "Revert"
	// PassedEmergency: every ring before has succeeded; soak and windows were bypassed.
	PassedEmergency Passed = "Emergency"
)

// Answer is what a cluster may take.
type Answer struct {
	// Commit is the one to take: the applied one if no newer one passes. It is empty if nothing is applied and nothing
	// passes.
	Commit string
	// By is why Commit passes; empty if it is the applied one.
	By Passed
	// Emergency is who signed Commit, if By is PassedEmergency.
	Emergency string
	// Waits has what each newer commit waits for, newest first.
	Waits []Wait
}

// NotInRingError reports that rings.yaml does not have the cluster where its NodeSync says.
type NotInRingError struct {
	Member Member
	// Ring is the ring in rings.yaml; empty if the cluster is in none. Wanted is spec.promotion.ring.
	Ring, Wanted string
}

// Error says what to do.
func (e *NotInRingError) Error() string {
	if e.Ring == "" {
		return fmt.Sprintf("%s has cluster %s in no ring: add it to ring %s, or delete spec.promotion of the NodeSync", File, e.Member, e.Wanted)
	}
	return fmt.Sprintf("%s has cluster %s in ring %s, and spec.promotion.ring of its NodeSync is %s: change one of them", File, e.Member, e.Ring, e.Wanted)
}

// View is what one fetch shows of a fleet: the history of the branch and the records, at a time.
type View struct {
	history *History
	records Records
	now     time.Time

	standings map[standingKey]standing
	bySoak    map[soakKey][]soak
	byRing    map[peersKey]peers
}

// NewView returns a View.
func NewView(history *History, records Records, now time.Time) *View {
	return &View{history: history, records: records, now: now, standings: map[standingKey]standing{}, bySoak: map[soakKey][]soak{}, byRing: map[peersKey]peers{}}
}

// Gate returns the commit that a member may take, if it has applied one; empty for none yet.
//
// The rings are those of the applied commit, so that a change of them applies from the next commit on. What stops a
// commit applies at once: a ring is paused if the newest valid rings.yaml of the branch pauses it.
//
// A cluster that the applied commit has in no ring has no gate yet: that is an error until a commit has it in one. The
// oldest such commit then decides, also about itself. Floor.MinSoak still requires a ring before.
func (v *View) Gate(m Member, floor Floor, applied string) (Answer, error) {
	rings, err := v.ringsFor(m, applied)
	if err != nil {
		return Answer{Commit: applied}, err
	}
	own := rings.Of(m)
	if own == nil || own.Name != floor.Ring {
		wrong := &NotInRingError{Member: m, Wanted: floor.Ring}
		if own != nil {
			wrong.Ring = own.Name
		}
		return Answer{Commit: applied}, wrong
	}
	answer := Answer{}
	line := v.history.Line(applied)
	to := member{me: m, floor: floor, applied: v.history.Get(applied), rings: rings, own: own, calendar: own.Calendar, paused: pausedNow(line, own)}
	for _, commit := range line {
		c := v.candidate(commit, to)
		by, wait := c.check()
		if wait == nil {
			answer.Commit, answer.By = c.Hash, by
			if by == PassedEmergency {
				answer.Emergency = c.Emergency
			}
			return answer, nil
		}
		answer.Waits = append(answer.Waits, *wait)
		if wait.Reason == WaitsForTurn {
			break // an older commit would be replaced as soon as it is the cluster's turn
		}
	}
	answer.Commit = applied
	return answer, nil
}

// ringsFor returns the rings that decide: those of the applied commit, or, if that does not have the member in a ring, of the
// oldest commit since that has. The rings of the newest commit decide what a new cluster takes first.
func (v *View) ringsFor(m Member, applied string) (*Rings, error) {
	line := v.history.Line(applied)
	if applied != "" {
		at := v.history.Get(applied)
		if at == nil {
			return nil, fmt.Errorf("the applied commit %s is not in the fetched history", applied)
		}
		if at.Rings != nil && at.Rings.Of(m) != nil {
			return at.Rings, nil
		}
		slices.Reverse(line)
	}
	var found *Rings
	for _, c := range line {
		switch {
		case c.Rings == nil:
		case c.Rings.Of(m) != nil:
			return c.Rings, nil
		case found == nil:
			found = c.Rings
		}
	}
	if found == nil && applied != "" {
		found = v.history.Get(applied).Rings
	}
	if found != nil {
		return found, nil // the caller reports that the member is in none of its rings
	}
	if tip := v.history.Get(v.history.Tip); tip != nil && tip.Invalid != nil {
		return nil, tip.Invalid
	}
	return nil, errors.New("no commit has a " + File + ": add it, or delete spec.promotion of the NodeSync")
}

// pausedNow returns why a ring is paused; empty if it is not.
func pausedNow(line []*Commit, own *Ring) string {
	for _, c := range line {
		if c.Rings == nil {
			continue
		}
		if ring := c.Rings.Named(own.Name); ring != nil {
			return ring.Paused
		}
		return ""
	}
	return own.Paused
}

// member is what the gate knows of a member.
type member struct {
	me    Member
	floor Floor
	// applied is the commit that it has taken; nil if it has taken none.
	applied *Commit
	rings   *Rings
	own     *Ring
	// calendar is that of its ring in the rings of the applied commit.
	calendar plan.Calendar
	// paused is why its ring is paused; empty if it is not.
	paused string
}

// candidate is a commit that a member may take.
type candidate struct {
	*View
	*Commit
	member
	// parent are the rings of the commit's first parent, and then the ring of the member in them; nil if there is none.
	parent *Rings
	then   *Ring
}

func (v *View) candidate(commit *Commit, to member) *candidate {
	c := &candidate{View: v, Commit: commit, member: to}
	if len(c.Parents) > 0 {
		if parent := c.history.Get(c.Parents[0]); parent != nil && parent.Rings != nil {
			c.parent, c.then = parent.Rings, parent.Rings.Of(c.me)
		}
	}
	return c
}

// check returns why the commit passes, or what it waits for.
func (c *candidate) check() (Passed, *Wait) {
	if c.Rings == nil {
		wait := c.wait(RingsInvalid, "", c.At, time.Time{}, nil, File+" is missing")
		if c.Invalid != nil {
			wait.Message = c.Invalid.Error()
		}
		return "", wait
	}
	if c.reverts() {
		return PassedRevert, nil
	}
	if c.paused != "" {
		return "", c.wait(RingPaused, c.own.Name, time.Time{}, time.Time{}, nil, "ring %s is paused: %s", c.own.Name, c.paused)
	}
	c.followChangedRings()
	if wait := c.verified(); wait != nil {
		return "", wait
	}
	by := PassedEmergency
	if c.Emergency == "" {
		by = PassedRings
		if wait := c.soaking(); wait != nil {
			return "", wait
		}
		if closed := c.calendar.At(c.now); closed.By != "" {
			return "", c.wait(WindowClosed, c.own.Name, time.Time{}, closed.Until, nil, "ring %s takes commits in its windows only", c.own.Name)
		}
	}
	return by, c.turn()
}

func (c *candidate) wait(reason Reason, ring string, since, until time.Time, members []Member, format string, args ...any) *Wait {
	return &Wait{Commit: c.Hash, Reason: reason, Ring: ring, Since: since, Until: until, Members: members, Message: fmt.Sprintf(format, args...)}
}

// reverts reports whether the commit returns to the definitions of the newest commit on which this cluster has succeeded
// before the applied one. A ring that has a commit takes its revert at once. Its rings.yaml must be that of the applied
// commit, because the next one passes by it; only pauses may differ.
func (c *candidate) reverts() bool {
	record, at := c.records[c.me].Record, c.applied
	if record == nil || at == nil || c.Inputs == "" || c.Inputs == at.Inputs {
		return false
	}
	before := ""
	for _, v := range record.Verdicts { // newest first
		known := c.history.Get(v.Commit)
		switch {
		case known == nil:
		case v.State == Failed && known.Inputs == c.Inputs:
			return false
		case v.State == Succeeded && before == "" && known.Inputs != at.Inputs && c.history.Contains(at.Hash, v.Commit):
			before = known.Inputs
		}
	}
	return before == c.Inputs && c.Rings.sameButPauses(at.Rings)
}

// followChangedRings replaces the rings by those of the commit's parent if no cluster of the rings before is left: all were
// retired by earlier commits. If only a part of them is, they are left out.
func (c *candidate) followChangedRings() {
	if c.then == nil || len(c.own.Before) == 0 {
		return
	}
	for _, i := range c.own.Before {
		if slices.ContainsFunc(c.rings.Rings[i].Members, c.counts) {
			return
		}
	}
	c.rings, c.own = c.parent, c.then
}

// verified returns what the rings before still have to do.
func (c *candidate) verified() *Wait {
	for _, i := range c.own.Before {
		switch s := c.standing(&c.rings.Rings[i]); {
		case len(s.failed) > 0:
			return c.failed(s.ring.Name, s.failed)
		case len(s.silent) > 0:
			return c.wait(ClusterSilent, s.ring.Name, s.silentSince, time.Time{}, s.silent,
				"waits for ring %s: no record to rely on from %s: %s", s.ring.Name, list(s.silent), s.problem)
		case len(s.good) < s.needed():
			return c.wait(WaitsForRing, s.ring.Name, c.At, time.Time{}, s.missing, "waits for ring %s: %d of %d clusters succeeded; not yet: %s",
				s.ring.Name, len(s.good), s.members, list(s.missing))
		}
	}
	for _, i := range c.own.Before {
		if s := c.standing(&c.rings.Rings[i]); !s.ran && c.directlyBefore(i) {
			return c.wait(NeverRun, s.ring.Name, c.At, time.Time{}, nil, "no cluster of ring %s has run this commit: they took a newer one", s.ring.Name)
		}
	}
	if failed := c.peers().failed; len(failed) > 0 {
		return c.failed(c.own.Name, failed)
	}
	return nil
}

// directlyBefore reports whether a ring before has clusters, and no other ring with clusters is between it and the own one.
func (c *candidate) directlyBefore(i int) bool {
	all := c.rings.Rings
	return c.standing(&all[i]).members > 0 && !slices.ContainsFunc(c.own.Before, func(j int) bool {
		return slices.Contains(all[j].Before, i) && c.standing(&all[j]).members > 0
	})
}

func (c *candidate) failed(ring string, members []Member) *Wait {
	return c.wait(FailedInRing, ring, time.Time{}, time.Time{}, members, "failed in ring %s, on %s: %s", ring, list(members),
		c.records[members[0]].Record.Of(c.Hash).Reason)
}

// soaking returns what is left of the soak.
func (c *candidate) soaking() *Wait {
	if len(c.own.Before) == 0 && c.floor.MinSoak > 0 {
		return c.wait(NothingBefore, c.own.Name, time.Time{}, time.Time{}, nil,
			"no ring comes before ring %s, and spec.promotion.minSoak is %s", c.own.Name, c.floor.MinSoak)
	}
	var last *Wait
	for _, i := range c.own.Before {
		s := c.standing(&c.rings.Rings[i])
		reached, until := c.soaked(s)
		if until.After(c.now) && (last == nil || until.After(last.Until)) {
			last = c.wait(Soaking, s.ring.Name, reached, until, nil, "soaks in ring %s until %s", s.ring.Name, until.UTC().Format("2006-01-02 15:04 UTC"))
		}
	}
	return last
}

// turn returns which clusters of the own ring come first, if the ring limits how many take a commit at one time. All
// clusters of the ring come to the same order from the same records, so no two of them need a lock.
func (c *candidate) turn() *Wait {
	if c.own.MaxClusters == 0 {
		return nil
	}
	first := c.peers().queue
	at := slices.Index(first, c.me)
	if at < 0 && !c.isDone(c.me) {
		at = len(first) // it has not reported yet
	}
	if at < c.own.MaxClusters {
		return nil
	}
	return c.wait(WaitsForTurn, c.own.Name, time.Time{}, time.Time{}, first[:at], "waits for its turn in ring %s, %d at a time, after %s",
		c.own.Name, c.own.MaxClusters, list(first[:at]))
}

// maxNamed limits the clusters that a message names.
const maxNamed = 3

func list(members []Member) string {
	names := make([]string, 0, len(members))
	for _, m := range members {
		names = append(names, strings.TrimSuffix(m.String(), "/"+m.Cluster)) // prod/prod is prod
	}
	return shortlist.Join(names, maxNamed, ", ")
}
