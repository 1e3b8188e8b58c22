package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Update is the verdict of a reconcile, from which commit statuses are made.
type Update struct {
	// Subject is the subject of the statuses.
	Subject Subject
	// Hosts receive the statuses.
	Hosts []Target
	// Context is the context of the statuses on the Whole; each other Subject adds its own suffix. If Context is empty, it is
	// unknown yet: the last known context applies, or else Fallback.
	Context, Fallback string
	// Head is the commit that the verdict applies to.
	Head string
	// Commits receive the verdict, newest first. They count only if Head is new.
	Commits     []string
	State       State
	Description string
	// Inputs is the fingerprint of what Head is rendered from, and From that of what was applied before;
	// empty if unknown.
	Inputs, From string
	// Started reports whether any part of Head is applied.
	Started bool
	// Before are the definitions that Head changes, as they were before Head, if a reconcile has found them.
	Before []Definition
	// Now returns the digest of a definition in Head, empty if Head does not contain it; nil if unknown.
	Now func(definition string) string
	// Refused reports whether Head has failed and nothing of it is applied.
	Refused bool
	// Ended contains the final results of older commits that complete independently of Head: they continue while Head is Refused,
	// or their rollouts fail while Head waits for them.
	Ended map[string]Word
	// Settled returns the final result of an older commit that continues while Head is Refused; the result is empty while it
	// continues. nil if unknown.
	Settled func(commit string) Word
	// Reverted contains, for each older commit that Head has reverted, how far it had progressed. Progress contains the
	// same for those that Head may have reverted: their inputs decide.
	Reverted, Progress map[string]string
	// Left contains, for each older commit that Head continues, what remains of it. It is reported at once.
	Left map[string]string
	// Waits are the newer commits that this cluster does not take yet. Once it takes one of them, or a newer commit, that
	// one's result replaces what is reported here.
	Waits []Waiting
	// Retry retries at once what has failed.
	Retry bool
	// At is the current time.
	At time.Time
}

// Waiting is a commit that a cluster does not take yet.
type Waiting struct {
	Commit, Description string
}

// maxHeldBack limits the commits that are remembered as waiting.
const maxHeldBack = 30

// withWaited returns the commits that receive the verdict on a new head: also those that had waited, and that the head
// contains or has replaced.
func (l *Ledger) withWaited(s Update) []string {
	commits := slices.Clone(s.Commits)
	l.Waiting = slices.DeleteFunc(l.Waiting, func(c Commit) bool {
		if slices.ContainsFunc(s.Waits, func(w Waiting) bool { return w.Commit == c.ID }) {
			return false
		}
		if !slices.Contains(commits, c.ID) {
			commits = append(commits, c.ID)
		}
		return true
	})
	return commits
}

// markWaiting reports the commits that wait.
func (l *Ledger) markWaiting(s Update) {
	for _, w := range s.Waits {
		if l.commit(w.Commit) != nil {
			continue // it was taken before, and has its own result
		}
		word := Word{State: Pending, Description: Truncate(w.Description)}
		i := slices.IndexFunc(l.Waiting, func(c Commit) bool { return c.ID == w.Commit })
		news := i < 0 || l.Waiting[i].Word != word
		if i < 0 {
			l.Waiting = append(l.Waiting, Commit{ID: w.Commit})
			i = len(l.Waiting) - 1
		}
		l.Waiting[i].Word = word
		for j := range l.Lanes {
			if lane := &l.Lanes[j]; lane.Context == l.Context && (news || lane.fresh) {
				lane.put(w.Commit, word, s.page(lane.Host), s.At)
			}
		}
	}
	if more := len(l.Waiting) - maxHeldBack; more > 0 {
		l.Waiting = slices.Delete(l.Waiting, 0, more)
	}
}

// Definition is an object in Git, KIND/NAME, and a digest of the fields that its nodes were created from; empty if there was none.
// After is the digest in the commit that changes it.
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

// record records a verdict. A verdict that was reported already changes nothing.
func (l *Ledger) record(s Update) {
	if l.Head != s.Head {
		l.setHead(s.Head, l.withWaited(s))
	}
	l.setContext(s)
	l.setHosts(s)
	l.markWaiting(s)
	newest := l.newest().ID
	l.markReverted(s)
	l.markRevertedTogether(s)
	with := l.fetchedTogether()
	for i := range l.Commits {
		c := &l.Commits[i]
		next, news := c.next(newest, s, with[c.ID])
		if news {
			c.Word = next
		}
		for j := range l.Lanes {
			lane := &l.Lanes[j]
			if lane.Context == l.Context && (news || lane.fresh && c.Phase == PhaseReported && c.State != "") {
				lane.put(c.ID, c.Word, s.page(lane.Host), s.At)
			}
		}
	}
	l.releaseMoved(s)
	l.forget()
	l.bound(s.At)
}

// continuesPrefix starts the status of a commit that continues while a newer one is refused. It does not mention nodes:
// that would become stale.
const continuesPrefix = "continues under "

// fetchedTogether maps each commit to the commit that a reconcile has rendered and that it was fetched with; a rendered
// commit maps to itself. Commits fetched together share one result. It omits those that were fetched with the newest
// commit.
func (l *Ledger) fetchedTogether() map[string]string {
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

// next returns what to report for a commit that was fetched with a rendered one, and whether that is new.
func (c *Commit) next(newest string, s Update, with string) (next Word, news bool) {
	if c.ID == newest {
		next = Word{State: s.State, Description: Truncate(s.Description)}
		return next, c.shouldReport(next, true)
	}
	if ended := s.Ended[with]; ended.final() {
		return ended, c.shouldReport(ended, false)
	}
	next = c.superseded(newest, s)
	if s.Refused && with != "" && c.Reverted == "" {
		return c.continued(newest, s, with)
	}
	return next, c.shouldReport(next, false) || c.Phase != PhaseSettled && s.Left[c.ID] != ""
}

// continued returns what to report for a commit that continues while a newer one is refused: plumbline completes what a
// reconcile has begun for it.
func (c *Commit) continued(newest string, s Update, with string) (next Word, news bool) {
	told := strings.HasPrefix(c.Description, continuesPrefix)
	if told && s.Settled != nil {
		if ended := s.Settled(with); ended.final() {
			return ended, c.shouldReport(ended, false)
		}
	}
	next = Word{State: Pending, Description: continuesPrefix + ShortCommit(newest) + ": see plumbline status"}
	return next, !c.final() && c.Left == "" && !told
}

// superseded returns the status of a commit that is not the newest. A reverted commit has not succeeded, whatever the result
// of the newest one.
func (c *Commit) superseded(newest string, s Update) Word {
	if words := s.Left[c.ID]; words != "" {
		c.Left = ", " + words
	}
	w := Word{State: s.State, Description: Truncate(fmt.Sprintf("superseded by %s%s: %s", ShortCommit(newest), c.Left, s.Description))}
	if c.Left != "" && !w.final() { // what the newer commit waits for would be shown for that whole time
		w.Description = fmt.Sprintf("superseded by %s%s", ShortCommit(newest), c.Left)
	}
	if c.Reverted != "" {
		w.Description = Truncate(c.Reverted)
		if w.final() {
			w.State = Failure
		}
	}
	return w
}

// shouldReport reports whether to report a status for a commit. For commits other than the newest, a pending status is
// reported only once: only for the newest does it matter what is waited for.
func (c *Commit) shouldReport(w Word, newest bool) bool {
	switch {
	case c.Phase == PhaseSettled:
		return false
	case newest:
		return c.Word != w
	}
	return c.State == "" || w.final() && c.State != w.State
}

// setHead makes another commit the head.
func (l *Ledger) setHead(head string, commits []string) {
	if !slices.Contains(commits, head) {
		commits = append([]string{head}, commits...) // a client that waits for a push waits for its last commit
	}
	var told, older []Commit
	for _, id := range commits {
		known := l.commit(id)
		switch {
		case known == nil || id == head:
			told = append(told, Commit{ID: id})
		case !known.final():
			told = append(told,
				Commit{ID: id, Inputs: known.Inputs, From: known.From, Before: known.Before, Reverted: known.Reverted, Left: known.Left})
		}
	}
	if len(told) == 0 { // every commit that changed something has its final status
		told = []Commit{{ID: head}}
	}
	for _, c := range l.Commits {
		switch {
		case slices.ContainsFunc(told, func(t Commit) bool { return t.ID == c.ID }):
			continue
		case !c.final():
			c.Phase = PhaseSuperseded
		case slices.Contains(commits, c.ID):
			c.Phase, c.Before = PhaseSettled, nil
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

// setHosts makes the lanes match the hosts that receive statuses.
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

// without returns the lanes with waiting entries that lead to none of the hosts.
func (l *Ledger) without(hosts []Target) []Lane {
	return slices.DeleteFunc(slices.Clone(l.Lanes), func(lane Lane) bool {
		return len(lane.Waiting) == 0 || slices.ContainsFunc(hosts, func(t Target) bool { return t.is(lane.Host) })
	})
}

// retry retries at once what failed.
func (l *Lane) retry() {
	l.NotBefore, l.Refused, l.RefusedAt = time.Time{}, "", time.Time{}
	for i := range l.Waiting {
		if l.Waiting[i].Attempts > 0 {
			l.Waiting[i].NotBefore = time.Time{}
		}
	}
}

// is reports whether two hosts are the same, regardless of the Secret.
func (h Host) is(other Host) bool { return h.Provider == other.Provider && h.URL == other.URL }

func (s Update) target(h Host) Target {
	if i := slices.IndexFunc(s.Hosts, func(t Target) bool { return t.is(h) }); i >= 0 {
		return s.Hosts[i]
	}
	return Target{}
}

func (s Update) secret(h Host) string { return s.target(h).Secret }

func (s Update) page(h Host) string { return s.target(h).Page }

// forget drops the overtaken commits that have their final status, and what was recorded of commits that are no longer needed.
func (l *Ledger) forget() {
	l.Commits = slices.DeleteFunc(l.Commits, func(c Commit) bool { return c.Phase == PhaseSuperseded && c.final() })
	for i := range l.Lanes {
		lane := &l.Lanes[i]
		lane.fresh = false
		for id := range lane.Posted {
			waits := slices.ContainsFunc(l.Waiting, func(c Commit) bool { return c.ID == id })
			if l.commit(id) == nil && lane.index(id) < 0 && !waits {
				delete(lane.Posted, id)
			}
		}
	}
}

// markReverted records the inputs of Head. Once any part of Head is applied, it also records which older commits Head
// reverts: a commit that has other inputs and was applied on top of Head's inputs, every commit after that one or after
// an older one with Head's inputs, and a commit of which a definition is again as it was before it.
func (l *Ledger) markReverted(s Update) {
	head := l.newest()
	if s.Inputs == "" || head.ID != s.Head {
		return
	}
	if head.Inputs = s.Inputs; head.From == "" && s.From != s.Inputs {
		head.From = s.From
	}
	head.note(l.introduced(head, s))
	if !s.Started {
		return // it may never be applied
	}
	back := false
	for i := len(l.Commits) - 1; i >= 0; i-- { // the oldest first
		c := &l.Commits[i]
		switch {
		case c.ID == head.ID, c.Phase == PhaseSettled, c.Inputs == "":
		case c.Inputs == s.Inputs:
			c.Reverted, back = "", true
		default:
			back = back || c.From == s.Inputs
			if c.Reverted != "" {
				continue
			}
			if undone := c.revertedDefinition(s.Now); back || undone != "" {
				words := slices.DeleteFunc([]string{s.Progress[c.ID], undone}, func(w string) bool { return w == "" })
				c.Reverted = revertedBy(head.ID, cmp.Or(strings.Join(words, "; "), "it was not complete"))
			}
		}
	}
}

// markRevertedTogether records how far the commits that Head has reverted had progressed. Commits that no reconcile has
// rendered as HEAD, because they were fetched with a newer one, get the result of that one: it is unknown which of them
// caused it.
func (l *Ledger) markRevertedTogether(s Update) {
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
		case c.Phase != PhaseSettled && with.ID != head:
			c.Reverted = with.Reverted
		}
	}
}

// MaxBefore is the maximum number of definitions recorded for a commit.
const MaxBefore = 100

// introduced returns the definitions that Head itself changes. If an older commit has made the same change and still waits, the
// change belongs to that commit.
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

// note records how definitions were before a commit changed them.
func (c *Commit) note(before []Definition) {
	for _, d := range before {
		known := slices.ContainsFunc(c.Before, func(k Definition) bool { return k.Name == d.Name })
		if len(c.Before) < MaxBefore && !known {
			c.Before = append(c.Before, d)
		}
	}
}

// revertedDefinition returns a message naming a definition that is again as it was before the commit; empty if there is
// none.
func (c *Commit) revertedDefinition(now func(string) string) string {
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

// revertedBy returns the message that names the commit that reverted another one, and how far that one had progressed.
func revertedBy(commit, words string) string {
	return fmt.Sprintf("reverted by %s: %s", ShortCommit(commit), words)
}
