package reconcile

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// crowded is when a NodeSync that found no lane is tried again at the latest: the one
// that waits longest is woken as soon as there is one.
const crowded = 10 * time.Second

// lanes bound how many passes over NodeSyncs of one repository run at a time. A pass may
// wait for a child process while another one of its repository has the place: a heavy
// commit that all of them follow must not hold every worker. The zero value bounds nothing.
type lanes struct {
	// most passes of one repository; 0 for any number.
	most int

	mu    sync.Mutex
	known map[string]*lane
}

// lane is of one repository.
type lane struct {
	running int
	waiting []types.NamespacedName
}

// among leaves one of so many workers to other repositories.
func (l *lanes) among(workers int) { l.most = max(1, workers-1) }

// enter begins a pass, unless the repository has as many as it may: then the NodeSync
// waits. What began has to leave.
func (l *lanes) enter(repository string, who types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]*lane{}
	}
	if l.known[repository] == nil {
		l.known[repository] = &lane{}
	}
	one := l.known[repository]
	if l.most > 0 && one.running >= l.most {
		if !slices.Contains(one.waiting, who) {
			one.waiting = append(one.waiting, who)
		}
		return false
	}
	one.running++
	return true
}

// leave ends a pass. It returns the NodeSync that waits longest, if any.
func (l *lanes) leave(repository string) (next types.NamespacedName, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.known[repository]
	one.running--
	if len(one.waiting) > 0 {
		next, one.waiting, waits = one.waiting[0], one.waiting[1:], true
	}
	if one.running == 0 && len(one.waiting) == 0 {
		delete(l.known, repository)
	}
	return next, waits
}

// endLane ends a pass, and wakes the one that waits for that.
func (r *Reconciler) endLane(repository string) {
	if next, waits := r.lanes.leave(repository); waits {
		r.Look(next)
	}
}
