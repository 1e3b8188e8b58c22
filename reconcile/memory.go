package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/changes"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/policy"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
)

// memory is what one pass leaves to the next so that unchanged things are not
// done again. Losing it costs time and nothing else: all that counts is in the
// cluster.
type memory struct {
	uid types.UID

	// behind is since when the watch cache has lacked what the last pass wrote; zero where it does not.
	behind time.Time

	// pushedAt is when a host said last that there is something new. Whoever
	// hears of it is no pass: memories guards it.
	pushedAt time.Time

	// What each step's room remembers.
	fetch    fetch.Memory
	desired  desired.Memory
	changes  changes.Memory
	install  install.Memory
	cluster  cluster.Memory
	account  account.Memory
	policy   policy.Memory
	removal  removal.Memory
	conclude conclude.Memory
}

// older says that a NodeSync, out of the cache, is older than what the last pass
// wrote. A pass over it would go by conditions and removals of before: it could
// end nodes on an answer that has been taken back.
func (m *memory) older(sync *v1alpha1.NodeSync) bool {
	if m.conclude.Saved == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(sync.ResourceVersion, m.conclude.Saved)
	return err == nil && order < 0
}

// memories are the memories of all NodeSyncs.
type memories struct {
	mu sync.Mutex
	of map[types.NamespacedName]*memory
	// registry is what each of them has in Git.
	registry policy.Registry
}

// recall returns the NodeSync's memory, a new one where it was made anew.
func (m *memories) recall(name types.NamespacedName, uid types.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[types.NamespacedName]*memory{}
	}
	if known, ok := m.of[name]; ok && known.uid == uid {
		return known
	}
	fresh := &memory{uid: uid}
	m.of[name] = fresh
	m.registry.Forget(name) // of one that had the name before
	return fresh
}

func (m *memories) forget(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, name)
	m.registry.Forget(name)
}

// Push notes that a host has something new for a NodeSync. One that was never
// looked at has no memory, and is fetched for anyhow.
func (m *memories) Push(name types.NamespacedName, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.of[name]; ok {
		known.pushedAt = at
	}
}

// pushed is when a host said last that it has something new.
func (m *memories) pushed(name types.NamespacedName) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.of[name]; ok {
		return known.pushedAt
	}
	return time.Time{}
}
