package promotion

import (
	"cmp"
	"time"
)

// Commit is a commit of the branch.
type Commit struct {
	// Hash is the full hash.
	Hash    string
	Parents []string
	// At is the commit's time, as it states itself.
	At time.Time
	// Rings is the rings.yaml of the commit; nil if it has none, or an invalid one: Invalid is then the reason.
	Rings   *Rings
	Invalid error
	// Inputs identifies the content of everything that this cluster reads of the commit. Two commits with the same
	// Inputs define the same nodes. It is empty if unknown.
	Inputs string
	// Emergency is who signed the commit, if it has the trailer of an emergency and one of spec.promotion.emergencySigners
	// signed it.
	Emergency string
}

// History contains commits of a branch and their ancestry.
type History struct {
	// Tip is the newest commit.
	Tip string

	commits []Commit
	index   map[string]int
	// reach has, for each commit, a bit for itself and each of its ancestors.
	reach [][]uint64
}

// NewHistory returns a history. The commits may be in any order; a parent that is not among them is unknown.
func NewHistory(tip string, commits []Commit) *History {
	h := &History{Tip: tip, commits: commits, index: make(map[string]int, len(commits)), reach: make([][]uint64, len(commits))}
	for i, c := range commits {
		h.index[c.Hash] = i
	}
	for i := range commits {
		h.fill(i)
	}
	return h
}

// fill computes the ancestors of a commit, and of its ancestors first. It does not recurse: a branch may be long.
func (h *History) fill(from int) {
	words := (len(h.commits) + 63) / 64
	for stack := []int{from}; len(stack) > 0; {
		i := stack[len(stack)-1]
		if h.reach[i] != nil {
			stack = stack[:len(stack)-1]
			continue
		}
		waits := false
		for _, parent := range h.commits[i].Parents {
			if p, known := h.index[parent]; known && h.reach[p] == nil {
				stack, waits = append(stack, p), true
			}
		}
		if waits {
			continue
		}
		bits := make([]uint64, words)
		bits[i/64] |= 1 << (i % 64)
		for _, parent := range h.commits[i].Parents {
			if p, known := h.index[parent]; known {
				for w := range bits {
					bits[w] |= h.reach[p][w]
				}
			}
		}
		h.reach[i] = bits
		stack = stack[:len(stack)-1]
	}
}

// Get returns a commit; nil if it is unknown.
func (h *History) Get(hash string) *Commit {
	if i, known := h.index[hash]; known {
		return &h.commits[i]
	}
	return nil
}

// SilentAfter returns the shortest silentAfter of the commits: by one of them, each cluster of the fleet judges which others
// are silent.
func (h *History) SilentAfter() time.Duration {
	shortest := time.Duration(0)
	for i := range h.commits {
		if rings := h.commits[i].Rings; rings != nil && (shortest == 0 || rings.SilentAfter < shortest) {
			shortest = rings.SilentAfter
		}
	}
	return cmp.Or(shortest, DefaultSilentAfter)
}

// Contains reports whether a commit is known to be another one or a descendant of it.
func (h *History) Contains(commit, ancestor string) bool {
	if commit == ancestor {
		return true
	}
	i, known := h.index[commit]
	a, too := h.index[ancestor]
	return known && too && h.reach[i][a/64]&(1<<(a%64)) != 0
}

// Line returns the commits that were the tip of the branch and that the applied commit does not contain, newest first:
// along first parents, since a commit of a merged branch was never the tip. It always contains the tip, unless that is
// the applied commit. If nothing is applied, it is the whole line.
func (h *History) Line(applied string) []*Commit {
	var line []*Commit
	for c := h.Get(h.Tip); c != nil && c.Hash != applied; {
		if applied != "" && len(line) > 0 && h.Contains(applied, c.Hash) {
			break
		}
		line = append(line, c)
		if len(c.Parents) == 0 {
			break
		}
		c = h.Get(c.Parents[0])
	}
	return line
}
