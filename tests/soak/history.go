package soak

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// remembered is how far back a HEAD counts: a frozen daemon, or one with slow requests, may act on it that much later.
const remembered = time.Minute

// history records what HEAD was, and when, and what was edited in the cluster.
type history struct {
	mu    sync.Mutex
	heads []head
	edits map[string]int // the last weight that a user has set manually
}

// head is one commit that was HEAD. It starts when its push starts, and the previous one ends when the push has
// completed: in between, either may have been seen.
type head struct {
	commit string
	fleet  fleet
	began  time.Time
	ended  time.Time // zero for the last one
}

// coming records that a push starts, which makes a fleet HEAD.
func (h *history) coming(commit string, f fleet, began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heads = append(h.heads, head{commit: commit, fleet: f, began: began})
}

// arrived records that the push has completed, which ends the previous HEAD.
func (h *history) arrived(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.heads); n > 1 {
		h.heads[n-2].ended = at
	}
}

// edit records that a user sets a pool's weight.
func (h *history) edit(pool string, weight int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.edits == nil {
		h.edits = map[string]int{}
	}
	h.edits[pool] = weight
}

// edited returns the last manually set weights.
func (h *history) edited() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.edits)
}

// wanted reports whether every HEAD between two times contained an entry.
func (h *history) wanted(kind, name string, from, to time.Time) bool {
	for _, head := range h.between(from, to) {
		if !head.fleet.has(kind, name) {
			return false
		}
	}
	return true
}

// kept reports whether every HEAD between two times wanted a pool's nodes unchanged.
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

// at returns the content of a commit.
func (h *history) at(commit string) (fleet, bool) {
	said := h.since(commit)
	if len(said) == 0 {
		return fleet{}, false
	}
	return said[0], true
}

// since returns the content of a commit, and of each HEAD since it first was HEAD; none if it never was.
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

// amiss returns the commits that must not be followed, each once.
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
