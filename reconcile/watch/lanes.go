package watch

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// RetryWithoutLane is the latest time at which a NodeSync that got no lane is retried: the one that waits longest is
// enqueued as soon as there is one.
const RetryWithoutLane = 10 * time.Second

// Lanes limit how many NodeSyncs of one repository are reconciled at a time, and of all heavy repositories together. A
// reconcile may wait for a child process while another one runs: heavy commits must not occupy every worker. The zero
// value has no limit.
type Lanes struct {
	// Heavy reports whether the child processes of a repository have recently taken long; nil if none is heavy.
	Heavy func(repository string) bool

	// the limit for reconciles of one repository, and of all heavy ones; 0 for no limit
	most int

	mu sync.Mutex
	// running counts the reconciles of each repository.
	running map[string]int
	// waiting are the NodeSyncs that got no lane, the longest waiting first.
	waiting []waiter
}

// waiter is a NodeSync that got no lane.
type waiter struct {
	repository string
	who        types.NamespacedName
}

// Among leaves one of the workers to other repositories.
func (l *Lanes) Among(workers int) { l.most = max(1, workers-1) }

// Enter starts a reconcile unless the repository is at its limit; then the NodeSync waits. A reconcile that has started
// must call Leave or End.
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

// open reports whether there is a lane for another reconcile of a repository.
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

// End ends a reconcile, and enqueues the NodeSync that waits for that.
func (l *Lanes) End(repository string, look func(types.NamespacedName)) {
	if next, waits := l.Leave(repository); waits {
		look(next)
	}
}

// Leave ends a reconcile. It returns the longest waiting NodeSync that can have a lane now, if any.
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
