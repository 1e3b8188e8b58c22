package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// Update is the verdict of a reconcile, for commit statuses.
type Update struct {
	// Subject is what the statuses are about.
	Subject Subject
	// Hosts are to have it.
	Hosts []Target
	// Context of the statuses on the whole; a Subject adds its own word. Empty if it is not known yet: then the last one
	// that was, or else Fallback.
	Context, Fallback string
	// Head is the commit that the verdict is on.
	Head string
	// Commits get it, newest first. They count only when Head is new.
	Commits     []string
	State       report.State
	Description string
	// Inputs is the fingerprint of what Head is rendered from, and From of what was applied before;
	// empty if that is not known.
	Inputs, From string
	// Begun reports whether something of Head is applied.
	Begun bool
	// Before are the definitions that Head changes, as they were before it, if a reconcile has found them.
	Before []Definition
	// Now is the digest of a definition as Head has it, empty if it has none; nil if that is not known.
	Now func(definition string) string
	// Refused reports whether Head has failed, and that nothing of it is applied.
	Refused bool
	// Ended says how older commits have ended by themselves: that go on under a Head that is Refused, or whose rollouts
	// fail while Head waits for these.
	Ended map[string]Word
	// Settled says how an older commit has ended that goes on under a Head that is Refused; the word is empty while it goes on.
	// nil if that is unknown.
	Settled func(commit string) Word
	// Reverted says of older commits, which Head has taken back, how far each had come, and Came
	// says so of those that it may have: their inputs tell.
	Reverted, Came map[string]string
	// Left says of older commits, which Head goes on with, what is left of each. That is
	// reported at once.
	Left map[string]string
	// Retry has what failed tried again at once.
	Retry bool
	// At is now.
	At time.Time
}

// Definition is an object of Git, KIND/NAME, and a digest of what its nodes were made by; empty if there was none.
// After is the digest by the commit that changes it.
type Definition struct {
	Name   string `json:"name"`
	Digest string `json:"digest,omitempty"`
	After  string `json:"after,omitempty"`
}

// Target is a host and the page that a status links to there.
type Target struct {
	Host
	Page string
}

// say notes a verdict. What was reported already changes nothing.
func (l *Ledger) say(s Update) {
	if l.Head != s.Head {
		l.turn(s.Head, s.Commits)
	}
	l.setContext(s)
	l.setHosts(s)
	newest := l.newest().ID
	l.takeBack(s)
	l.takeBackTogether(s)
	with := l.together()
	for i := range l.Commits {
		c := &l.Commits[i]
		next, news := c.next(newest, s, with[c.ID])
		if news {
			c.Word = next
		}
		for j := range l.Lanes {
			lane := &l.Lanes[j]
			if lane.Context == l.Context && (news || lane.fresh && c.Phase == Told && c.State != "") {
				lane.put(c.ID, c.Word, s.page(lane.Host), s.At)
			}
		}
	}
	l.letGo(s)
	l.forget()
	l.bound(s.At)
}

// goesOn begins what stands on a commit from when a newer one is refused: what it says of nodes would grow old.
const goesOn = "goes on under "

// together are the commits that a reconcile has rendered by those that came with each, itself among them: what was fetched
// with a newer one shares its fate. Those that came with the newest one are not among them.
func (l *Ledger) together() map[string]string {
	all, with := map[string]string{}, ""
	for _, c := range l.Commits { // the newest first
		if c.Inputs != "" && c.ID != l.newest().ID {
			with = c.ID
		}
		if with != "" {
			all[c.ID] = with
		}
	}
	return all
}

// next is what is to be reported of a commit, which came with one that was rendered, and whether that is news.
func (c *Commit) next(newest string, s Update, with string) (next Word, news bool) {
	if c.ID == newest {
		next = Word{State: s.State, Description: report.Truncate(s.Description)}
		return next, c.wants(next, true)
	}
	if ended := s.Ended[with]; ended.final() {
		return ended, c.wants(ended, false)
	}
	next = c.superseded(newest, s)
	if s.Refused && with != "" && c.Reverted == "" {
		return c.goes(newest, s, with)
	}
	return next, c.wants(next, false) || c.Phase != Settled && s.Left[c.ID] != ""
}

// goes is what is to be reported of a commit that goes on under a newer one that is refused: what a reconcile has begun for it is
// carried out.
func (c *Commit) goes(newest string, s Update, with string) (next Word, news bool) {
	told := strings.HasPrefix(c.Description, goesOn)
	if told && s.Settled != nil {
		if ended := s.Settled(with); ended.final() {
			return ended, c.wants(ended, false)
		}
	}
	next = Word{State: report.Pending, Description: goesOn + Short(newest) + ": see plumbline status"}
	return next, !c.final() && c.Left == "" && !told
}

// superseded is the word on a commit that is not the newest. One that was taken back has not
// succeeded, whatever becomes of the newest.
func (c *Commit) superseded(newest string, s Update) Word {
	if words := s.Left[c.ID]; words != "" {
		c.Left = ", " + words
	}
	w := Word{State: s.State, Description: report.Truncate(fmt.Sprintf("superseded by %s%s: %s", Short(newest), c.Left, s.Description))}
	if c.Left != "" && !w.final() { // what the newer one waits for would stand there for as long as it takes
		w.Description = fmt.Sprintf("superseded by %s%s", Short(newest), c.Left)
	}
	if c.Reverted != "" {
		w.Description = report.Truncate(c.Reverted)
		if w.final() {
			w.State = report.Failure
		}
	}
	return w
}

// wants reports whether a commit is to be told a word. On all but the newest, and on
// those that were overtaken, a pending is news once: what is waited for is of interest only on the newest.
func (c *Commit) wants(w Word, newest bool) bool {
	switch {
	case c.Phase == Settled:
		return false
	case newest:
		return c.Word != w
	}
	return c.State == "" || w.final() && c.State != w.State
}

// turn makes another commit the head.
func (l *Ledger) turn(head string, commits []string) {
	if !slices.Contains(commits, head) {
		commits = append([]string{head}, commits...) // who waits for a push waits for its last commit
	}
	var told, older []Commit
	for _, id := range commits {
		known := l.commit(id)
		switch {
		case known == nil || id == head:
			told = append(told, Commit{ID: id})
		case !known.final():
			told = append(told, Commit{ID: id, Inputs: known.Inputs, From: known.From, Before: known.Before, Reverted: known.Reverted, Left: known.Left})
		}
	}
	if len(told) == 0 { // all that changed something has its final word
		told = []Commit{{ID: head}}
	}
	for _, c := range l.Commits {
		switch {
		case slices.ContainsFunc(told, func(t Commit) bool { return t.ID == c.ID }):
			continue
		case !c.final():
			c.Phase = Overtaken
		case slices.Contains(commits, c.ID):
			c.Phase, c.Before = Settled, nil
		default:
			continue
		}
		older = append(older, c)
	}
	l.Head, l.Commits = head, append(told, older...)
	for i := range l.Lanes {
		l.Lanes[i].Lost = ""
	}
}

// setHosts makes the lanes those of the hosts that are to be told.
func (l *Ledger) setHosts(s Update) {
	l.Lanes = slices.DeleteFunc(l.Lanes, func(lane Lane) bool {
		return !slices.ContainsFunc(s.Hosts, func(t Target) bool { return t.is(lane.Host) })
	})
	for _, t := range s.Hosts {
		if l.lane(laneKey{t.Provider, t.URL, l.Context}) == nil {
			l.Lanes = append(l.Lanes, Lane{Host: t.Host, Context: l.Context, fresh: true})
		}
	}
	for i := range l.Lanes {
		lane := &l.Lanes[i]
		secret := s.secret(lane.Host)
		if lane.Secret != secret || s.Retry {
			lane.retry()
		}
		lane.Secret = secret
	}
}

// without are the lanes with something in them that lead to none of the hosts.
func (l *Ledger) without(hosts []Target) []Lane {
	return slices.DeleteFunc(slices.Clone(l.Lanes), func(lane Lane) bool {
		return len(lane.Waiting) == 0 || slices.ContainsFunc(hosts, func(t Target) bool { return t.is(lane.Host) })
	})
}

// retry has what failed tried at once.
func (l *Lane) retry() {
	l.NotBefore, l.Refused, l.RefusedAt = time.Time{}, "", time.Time{}
	for i := range l.Waiting {
		if l.Waiting[i].Attempts > 0 {
			l.Waiting[i].NotBefore = time.Time{}
		}
	}
}

// is reports whether two hosts are the same, whatever the Secret.
func (h Host) is(other Host) bool { return h.Provider == other.Provider && h.URL == other.URL }

func (s Update) target(h Host) Target {
	if i := slices.IndexFunc(s.Hosts, func(t Target) bool { return t.is(h) }); i >= 0 {
		return s.Hosts[i]
	}
	return Target{}
}

func (s Update) secret(h Host) string { return s.target(h).Secret }

func (s Update) page(h Host) string { return s.target(h).Page }

// forget drops the commits that were overtaken and have their final word, and
// what is known of commits that are of no interest any more.
func (l *Ledger) forget() {
	l.Commits = slices.DeleteFunc(l.Commits, func(c Commit) bool { return c.Phase == Overtaken && c.final() })
	for i := range l.Lanes {
		lane := &l.Lanes[i]
		lane.fresh = false
		for id := range lane.Posted {
			if l.commit(id) == nil && lane.index(id) < 0 {
				delete(lane.Posted, id)
			}
		}
	}
}

// takeBack notes the inputs of Head, and, once anything of it is applied, which older commits these take back: one
// whose inputs they are not, and before which they were applied, and what came after that one, or after an older
// one with these inputs; and one of whose definitions one is again as it was before it.
func (l *Ledger) takeBack(s Update) {
	head := l.newest()
	if s.Inputs == "" || head.ID != s.Head {
		return
	}
	if head.Inputs = s.Inputs; head.From == "" && s.From != s.Inputs {
		head.From = s.From
	}
	head.note(l.introduced(head, s))
	if !s.Begun {
		return // it may never be
	}
	back := false
	for i := len(l.Commits) - 1; i >= 0; i-- { // the oldest first
		c := &l.Commits[i]
		switch {
		case c.ID == head.ID, c.Phase == Settled, c.Inputs == "":
		case c.Inputs == s.Inputs:
			c.Reverted, back = "", true
		default:
			back = back || c.From == s.Inputs
			if c.Reverted != "" {
				continue
			}
			if undone := c.undone(s.Now); back || undone != "" {
				words := slices.DeleteFunc([]string{s.Came[c.ID], undone}, func(w string) bool { return w == "" })
				c.Reverted = revertedBy(head.ID, cmp.Or(strings.Join(words, "; "), "it was not complete"))
			}
		}
	}
}

// takeBackTogether notes how far commits had come that Head has taken back, and gives those that no reconcile has
// rendered as HEAD, as they were fetched with a newer one, the fate of that: which of them did what is not known.
func (l *Ledger) takeBackTogether(s Update) {
	with := l.newest()
	head := with.ID
	for i := range l.Commits { // the newest first
		c := &l.Commits[i]
		if words := s.Reverted[c.ID]; words != "" && c.ID != head {
			c.Reverted = revertedBy(head, words)
		}
		switch {
		case c.Inputs != "":
			with = c
		case c.Phase != Settled && with.ID != head:
			c.Reverted = with.Reverted
		}
	}
}

// MaxBefore is how many definitions are noted of a commit.
const MaxBefore = 100

// introduced are the definitions that Head changes by itself: what an older commit has changed likewise, and waits, is that
// one's.
func (l *Ledger) introduced(head *Commit, s Update) []Definition {
	var all []Definition
	for _, d := range s.Before {
		if s.Now != nil {
			d.After = s.Now(d.Name)
		}
		older := func(c Commit) bool { return c.ID != head.ID && slices.Contains(c.Before, d) }
		if !slices.ContainsFunc(l.Commits, older) {
			all = append(all, d)
		}
	}
	return all
}

// note notes how definitions were before a commit changed them.
func (c *Commit) note(before []Definition) {
	for _, d := range before {
		known := slices.ContainsFunc(c.Before, func(k Definition) bool { return k.Name == d.Name })
		if len(c.Before) < MaxBefore && !known {
			c.Before = append(c.Before, d)
		}
	}
}

// undone names a definition that is again as it was before the commit; empty if none is.
func (c *Commit) undone(now func(string) string) string {
	if now == nil {
		return ""
	}
	for _, d := range c.Before {
		switch {
		case now(d.Name) != d.Digest:
		case d.Digest == "":
			return d.Name + ", which it was to create, has left Git"
		default:
			return d.Name + " is again as it was before"
		}
	}
	return ""
}

// revertedBy says which commit took another one back, and how far that had come.
func revertedBy(commit, words string) string {
	return fmt.Sprintf("reverted by %s: %s", Short(commit), words)
}
