package reconcile

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/inventory"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// memory is what one pass leaves to the next so that unchanged things are not
// done again. Losing it costs time and nothing else: all that counts is in the
// cluster.
type memory struct {
	uid types.UID

	// saved is the resourceVersion of what the last pass wrote.
	saved string
	// behind is since when the watch cache has lacked that; zero where it does not.
	behind time.Time
	// haste bounds the passes that are wanted at once.
	haste haste

	// The last fetch: when it began, what for, and why it failed where it did.
	fetchedAt  time.Time
	fetchedFor fetchKey
	failure    error
	// The last Snapshot, the generation of the NodeSync that it is of, and when its
	// fetch began.
	snapshot   *render.Snapshot
	snapshotOf int64
	snapshotAt time.Time
	// commitAt is when the fetch began that came first to that commit, and deletedAt
	// when the NodeSync was first seen to be deleted.
	commitAt, deletedAt time.Time
	// pushedAt is when a host said last that there is something new. Whoever
	// hears of it is no pass: memories guards it.
	pushedAt time.Time

	// What other NodeSyncs may know of it, whether this one waits to know that of
	// another, and whether it holds something for the number of nodes: memories guards
	// them.
	heard  heard
	awaits bool
	weighs bool
	// suspended is what suspended NodeSyncs have in the commit of the last Snapshot.
	suspended map[types.UID]suspended

	// forms are the definitions as each was in the cluster last.
	forms forms

	// mutated are the objects that something in the cluster changes at each write.
	mutated mutated

	// compared is what the last Plan has found as Git says.
	compared plan.Memo

	// applied is the revision that an event has said was applied, unless one said
	// that something went wrong since.
	applied string

	// The revision that could not be verified.
	unverified unverified

	// What came out of Secrets into the chart's values, and is not said.
	hidden hidden

	// What each step's room remembers.
	desired desired.Memory
	install install.Memory
	cluster cluster.Memory

	// lostPools are the NodePools whose nodes were reported lost with them.
	lostPools map[types.UID]bool
	// inventory is the record of what was applied; nil until it is read.
	inventory *inventory.Store

	// What AWS said last about the account, and when EC2 was asked last about
	// removals.
	account      account
	cloudAskedAt time.Time
	// foreign are the NodeClaims, by name, that were reported not to be EC2's.
	foreign map[string]bool
	// diagnosedAt is when what keeps the nodes of removals was looked for.
	diagnosedAt time.Time
	// cloudAbsent are instances that its answers lack, and for how long.
	cloudAbsent map[string]teardown.Absence

	// The commits that the last revision brought, and when a host was asked how it stands
	// to another one.
	history history
	ordered ordered
}

// fetchKey is what makes a fetch due before its time.
type fetchKey struct {
	generation int64
	requested  string
}

// older says that a NodeSync, out of the cache, is older than what the last pass
// wrote. A pass over it would go by conditions and removals of before: it could
// end nodes on an answer that has been taken back.
func (m *memory) older(sync *v1alpha1.NodeSync) bool {
	if m.saved == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(sync.ResourceVersion, m.saved)
	return err == nil && order < 0
}

// memories are the memories of all NodeSyncs.
type memories struct {
	mu sync.Mutex
	of map[types.NamespacedName]*memory
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
	return fresh
}

func (m *memories) forget(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, name)
}

// push notes that a host has something new for a NodeSync. One that was never
// looked at has no memory, and is fetched for anyhow.
func (m *memories) push(name types.NamespacedName, at time.Time) {
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

// heard is what is known of a NodeSync's newest Set: its entries, of which
// generation of the NodeSync it is, and when its fetch began.
type heard struct {
	refs       map[render.Ref]bool
	generation int64
	commit     string
	at         time.Time
}

// heardOf is what is known of a NodeSync's newest Set; nothing before its first.
func (m *memories) heardOf(name types.NamespacedName, uid types.UID) heard {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.of[name]; ok && known.uid == uid {
		return known.heard
	}
	return heard{}
}

// wants says whether the last Set of a NodeSync has an entry of this name.
func (m *memories) wants(name types.NamespacedName, ref render.Ref) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.of[name]
	return ok && known.heard.refs[ref]
}

// await notes whether a NodeSync waits for what others have in Git.
func (m *memories) await(name types.NamespacedName, awaits bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.of[name]; ok {
		known.awaits = awaits
	}
}

// weigh notes whether a NodeSync holds something for the number of nodes.
func (m *memories) weigh(name types.NamespacedName, weighs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.of[name]; ok {
		known.weighs = weighs
	}
}

// weighing says whether a NodeSync holds something for the number of nodes.
func (m *memories) weighing(name types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.of[name]
	return ok && known.weighs
}

// awaiting says whether a NodeSync waits for what others have in Git.
func (m *memories) awaiting(name types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.of[name]
	return ok && known.awaits
}

// remember notes a NodeSync's newest Set, and returns the NodeSyncs that wait to
// know of it, where it is news.
func (m *memories) remember(name types.NamespacedName, set *render.Set, generation int64, at time.Time) (waiting []types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.of[name]
	if !ok {
		return nil
	}
	same := known.heard.has(set)
	if same && known.heard.generation == generation && known.heard.commit == set.Commit && known.heard.at.Equal(at) {
		return nil
	}
	if !same {
		known.heard.refs = entriesOf(set)
	}
	known.heard.generation, known.heard.commit, known.heard.at = generation, set.Commit, at
	for other, memory := range m.of {
		if memory.awaits && other != name {
			waiting = append(waiting, other)
		}
	}
	return waiting
}

// entriesOf are the entries of a Set.
func entriesOf(set *render.Set) map[render.Ref]bool {
	entries := make(map[render.Ref]bool, len(set.Objects))
	for _, object := range set.Objects {
		entries[object.Ref] = true
	}
	return entries
}

// has says whether just the entries of a Set are known.
func (h heard) has(set *render.Set) bool {
	return h.refs != nil && len(h.refs) == len(set.Objects) &&
		!slices.ContainsFunc(set.Objects, func(o render.Object) bool { return !h.refs[o.Ref] })
}
