package watch

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Crowded is when a NodeSync that found no lane is tried again at the latest: the one
// that waits longest is woken as soon as there is one.
const Crowded = 10 * time.Second

// Lanes bound how many reconciles of NodeSyncs of one repository run at a time, and how many
// of all heavy repositories together. A reconcile may wait for a child process while another one
// has the place: heavy commits must not hold every worker. The zero value bounds nothing.
type Lanes struct {
	// Heavy reports whether the children of a repository have taken long lately; nil if
	// none has.
	Heavy func(repository string) bool

	// most passes of one repository, and of all heavy ones; 0 for any number.
	most int

	mu sync.Mutex
	// running are the reconciles of each repository.
	running map[string]int
	// waiting are the NodeSyncs that found no lane, the longest first.
	waiting []waiter
}

// waiter is a NodeSync that found no lane.
type waiter struct {
	repository string
	who        types.NamespacedName
}

// Among leaves one of so many workers to other repositories.
func (l *Lanes) Among(workers int) { l.most = max(1, workers-1) }

// Enter begins a reconcile, unless the repository has as many as it may: then the NodeSync
// waits. What began has to leave.
func (l *Lanes) Enter(repository string, who types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == nil {
		l.running = map[string]int{}
	}
	one := waiter{repository: repository, who: who}
	if !l.open(repository) {
		if !slices.Contains(l.waiting, one) {
			l.waiting = append(l.waiting, one)
		}
		return false
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(other waiter) bool { return other == one })
	l.running[repository]++
	return true
}

// open reports whether there is a lane for one more pass of a repository.
func (l *Lanes) open(repository string) bool {
	if l.most == 0 {
		return true
	}
	if l.running[repository] >= l.most {
		return false
	}
	if l.Heavy == nil || !l.Heavy(repository) {
		return true
	}
	running := 0
	for other, passes := range l.running {
		if l.Heavy(other) {
			running += passes
		}
	}
	return running < l.most
}

// End ends a reconcile, and has the one woken that waits for that.
func (l *Lanes) End(repository string, look func(types.NamespacedName)) {
	if next, waits := l.Leave(repository); waits {
		look(next)
	}
}

// Leave ends a reconcile. It returns the NodeSync that waits longest of those that have a lane
// now, if any.
func (l *Lanes) Leave(repository string) (next types.NamespacedName, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[repository]--; l.running[repository] == 0 {
		delete(l.running, repository)
	}
	i := slices.IndexFunc(l.waiting, func(w waiter) bool { return l.open(w.repository) })
	if i < 0 {
		return next, false
	}
	next = l.waiting[i].who
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return next, true
}
