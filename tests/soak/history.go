package soak

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// remembered is how far back a HEAD counts: a decision taken at it may be carried
// out that much later by a daemon that was frozen, or whose requests were slow.
const remembered = time.Minute

// history is what HEAD was, and when, and what was edited in the cluster.
type history struct {
	mu    sync.Mutex
	heads []head
	edits map[string]int // the last weight that somebody gave a pool by hand
}

// head is one commit that was HEAD. It begins when its push does, and the one
// before ends when the push has ended: in between either may have been seen.
type head struct {
	commit string
	fleet  fleet
	began  time.Time
	ended  time.Time // zero of the last one
}

// coming notes that a push begins, which makes a fleet HEAD.
func (h *history) coming(commit string, f fleet, began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heads = append(h.heads, head{commit: commit, fleet: f, began: began})
}

// arrived notes that the push has ended, and with it the time of the HEAD before.
func (h *history) arrived(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.heads); n > 1 {
		h.heads[n-2].ended = at
	}
}

// edit notes that a pool is given a weight by hand.
func (h *history) edit(pool string, weight int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.edits == nil {
		h.edits = map[string]int{}
	}
	h.edits[pool] = weight
}

// edited are the last weights that were given by hand.
func (h *history) edited() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.edits)
}

// wanted reports whether every HEAD between two moments had an entry.
func (h *history) wanted(kind, name string, from, to time.Time) bool {
	for _, head := range h.between(from, to) {
		if !head.fleet.has(kind, name) {
			return false
		}
	}
	return true
}

// kept reports whether a pool's nodes were wanted as they are by every HEAD between
// two moments.
func (h *history) kept(pool string, from, to time.Time) bool {
	heads := h.between(from, to)
	for _, head := range heads {
		if !head.fleet.sameNodes(heads[0].fleet, pool) {
			return false
		}
	}
	return len(heads) > 0
}

func (h *history) between(from, to time.Time) []head {
	h.mu.Lock()
	defer h.mu.Unlock()
	var heads []head
	for _, head := range h.heads {
		if !head.began.After(to) && (head.ended.IsZero() || !head.ended.Before(from)) {
			heads = append(heads, head)
		}
	}
	return heads
}

// at is what a commit says.
func (h *history) at(commit string) (fleet, bool) {
	said := h.since(commit)
	if len(said) == 0 {
		return fleet{}, false
	}
	return said[0], true
}

// since is what a commit says, and each HEAD since it was the first time; none if it
// never was.
func (h *history) since(commit string) []fleet {
	h.mu.Lock()
	defer h.mu.Unlock()
	var said []fleet
	for _, head := range h.heads {
		if len(said) > 0 || head.commit == commit {
			said = append(said, head.fleet)
		}
	}
	return said
}

// amiss are the commits that must not be followed, each once.
func (h *history) amiss() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	commits := map[string]bool{}
	for _, head := range h.heads {
		if head.fleet.amiss() {
			commits[head.commit] = true
		}
	}
	return slices.Sorted(maps.Keys(commits))
}
