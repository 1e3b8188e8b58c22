package queue

import (
	"cmp"
	"fmt"
)

// takeBack notes the inputs of Head, and, once anything of it is applied, which older commits these take back: one
// whose inputs they are not, and before which they were applied, and what came after that one, or after an older
// one with these inputs.
func (l *Ledger) takeBack(s Update) {
	head := l.newest()
	if s.Inputs == "" || head.ID != s.Head {
		return
	}
	if head.Inputs = s.Inputs; head.From == "" && s.From != s.Inputs {
		head.From = s.From
	}
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
			if back = back || c.From == s.Inputs; back && c.Reverted == "" {
				c.Reverted = revertedBy(head.ID, cmp.Or(s.Came[c.ID], "it had not come to its end"))
			}
		}
	}
}

// revertedBy says which commit took another one back, and how far that had come.
func revertedBy(commit, words string) string {
	return fmt.Sprintf("reverted by %s: %s", short(commit), words)
}
