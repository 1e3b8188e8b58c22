package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

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
				c.Reverted = revertedBy(head.ID, cmp.Or(strings.Join(words, "; "), "it had not come to its end"))
			}
		}
	}
}

// takeBackTogether notes how far commits had come that Head has taken back, and gives those that no pass has
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

// undone names a definition that is again as it was before the commit; empty where none is.
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
