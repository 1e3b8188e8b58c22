package reconcile

import (
	"sync"
	"time"
)

// crowded is when a pass that finds no lane is tried again.
const crowded = 250 * time.Millisecond

// lanes bound how many passes over NodeSyncs of one repository run at a time. A pass may
// wait for a child process while another one of its repository has the place: a heavy
// commit that all of them follow must not hold every worker. The zero value bounds nothing.
type lanes struct {
	// most passes of one repository; 0 for any number.
	most int

	mu      sync.Mutex
	running map[string]int
}

// among has one worker fewer than there are for one repository.
func (l *lanes) among(workers int) { l.most = max(1, workers-1) }

// enter begins a pass, and returns what ends it; nil where the repository has as many
// as it may.
func (l *lanes) enter(repository string) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most > 0 && l.running[repository] >= l.most {
		return nil
	}
	if l.running == nil {
		l.running = map[string]int{}
	}
	l.running[repository]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running[repository]--; l.running[repository] == 0 {
			delete(l.running, repository)
		}
	}
}
