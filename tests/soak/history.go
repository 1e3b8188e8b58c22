package soak

import (
	"sync"
	"time"
)

// remembered is how far back a HEAD counts: a decision taken at it may be carried
// out that much later by a daemon that was frozen, or whose requests were slow.
const remembered = time.Minute

// history is what HEAD was, and when.
type history struct {
	mu    sync.Mutex
	heads []head
}

// head is one commit that was HEAD. It begins when its push does, and the one
// before ends when the push has ended: in between either may have been seen.
type head struct {
	commit string
	fleet  fleet
	began  time.Time
	ended  time.Time // zero of the last one
}

// push notes that a fleet became HEAD, pushed between two moments.
func (h *history) push(commit string, f fleet, began, ended time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.heads); n > 0 {
		h.heads[n-1].ended = ended
	}
	h.heads = append(h.heads, head{commit: commit, fleet: f, began: began})
}

// wanted says whether every HEAD between two moments had an entry.
func (h *history) wanted(kind, name string, from, to time.Time) bool {
	for _, head := range h.between(from, to) {
		if !head.fleet.has(kind, name) {
			return false
		}
	}
	return true
}

// kept says whether a pool's nodes were wanted as they are by every HEAD between
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
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.heads) - 1; i >= 0; i-- {
		if h.heads[i].commit == commit {
			return h.heads[i].fleet, true
		}
	}
	return fleet{}, false
}

// broken are the commits that do not render.
func (h *history) broken() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var commits []string
	for _, head := range h.heads {
		if head.fleet.broken {
			commits = append(commits, head.commit)
		}
	}
	return commits
}
