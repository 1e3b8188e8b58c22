package evaluate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

// Registry records what each NodeSync has in Git, and what it waits for, for the reconciles of the others. Losing it
// costs a reconcile of each. The zero value is empty.
type Registry struct {
	mu sync.Mutex
	of map[types.NamespacedName]*entry
}

// entry is one NodeSync in a Registry.
type entry struct {
	uid types.UID
	latest
	// awaits reports whether it waits for what others have in Git, and holds whether it holds something because of the
	// number of nodes.
	awaits, holds bool
	// ask reports that it is suspended and must list its entries, from a fetch no older than this; nil if nothing waits
	// for them.
	ask *time.Time
}

// latest describes a NodeSync's newest Set: its entries, the generation of the NodeSync, and when its fetch started.
type latest struct {
	refs       map[render.Ref]bool
	generation int64
	commit     string
	at         time.Time
	// failure is why the Git of a suspended NodeSync could not be read the last time, and failedAt is when that was.
	failure  string
	failedAt time.Time
}

// has reports whether exactly the entries of a Set are recorded.
func (l latest) has(set *render.Set) bool {
	return l.refs != nil && len(l.refs) == len(set.Objects) &&
		!slices.ContainsFunc(set.Objects, func(o render.Object) bool { return !l.refs[o.Ref] })
}

// entriesOf returns the entries of a Set.
func entriesOf(set *render.Set) map[render.Ref]bool {
	entries := make(map[render.Ref]bool, len(set.Objects))
	for _, object := range set.Objects {
		entries[object.Ref] = true
	}
	return entries
}

// Forget drops the record of a NodeSync.
func (r *Registry) Forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, name)
}

// Remember records a NodeSync's newest Set. If it is new, it returns the NodeSyncs that wait for it.
func (r *Registry) Remember(
	name types.NamespacedName, uid types.UID, set *render.Set, generation int64, at time.Time,
) (waiting []types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.entry(name, uid)
	same := known.has(set)
	if same && known.failure == "" && known.generation == generation && known.commit == set.Commit && known.at.Equal(at) {
		return nil
	}
	if !same {
		known.refs = entriesOf(set)
	}
	known.generation, known.commit, known.at, known.failure = generation, set.Commit, at, ""
	return r.waiting(name)
}

// waiting returns the NodeSyncs that wait for what others have in Git. The caller holds r.mu.
func (r *Registry) waiting(of types.NamespacedName) (waiting []types.NamespacedName) {
	for other, known := range r.of {
		if known.awaits && other != of {
			waiting = append(waiting, other)
		}
	}
	return waiting
}

// requestEntries notes that a suspended NodeSync must list its entries, from a fetch no older than a time.
func (r *Registry) requestEntries(name types.NamespacedName, uid types.UID, notBefore time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.entry(name, uid); known.ask == nil || known.ask.Before(notBefore) {
		known.ask = &notBefore
	}
}

// takeRequest takes that request from a suspended NodeSync.
func (r *Registry) takeRequest(name types.NamespacedName, uid types.UID) (notBefore time.Time, asked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.of[name]
	if !ok || known.uid != uid || known.ask == nil {
		return time.Time{}, false
	}
	notBefore, known.ask = *known.ask, nil
	return notBefore, true
}

// fail records why the Git of a suspended NodeSync could not be read. If that is new, it returns the NodeSyncs that
// wait for it.
func (r *Registry) fail(name types.NamespacedName, uid types.UID, reason string, at time.Time) (waiting []types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.entry(name, uid)
	news := known.failure != reason
	known.failure, known.failedAt = reason, at
	if !news {
		return nil
	}
	return r.waiting(name)
}

// entry returns the entry of a NodeSync, a new one if it was recreated.
func (r *Registry) entry(name types.NamespacedName, uid types.UID) *entry {
	if r.of == nil {
		r.of = map[types.NamespacedName]*entry{}
	}
	if known, ok := r.of[name]; ok && known.uid == uid {
		return known
	}
	fresh := &entry{uid: uid}
	r.of[name] = fresh
	return fresh
}

// latest describes a NodeSync's newest Set; zero before its first.
func (r *Registry) latest(name types.NamespacedName, uid types.UID) latest {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.of[name]; ok && known.uid == uid {
		return known.latest
	}
	return latest{}
}

// note records what a NodeSync waits for.
func (r *Registry) note(name types.NamespacedName, uid types.UID, awaits, holds bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.entry(name, uid)
	known.awaits, known.holds = awaits, holds
}

// Wants reports whether the last Set of a NodeSync has an entry of this name.
func (r *Registry) Wants(name types.NamespacedName, ref render.Ref) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.of[name]
	return ok && known.refs[ref]
}

// Awaits reports whether a NodeSync waits for what others have in Git.
func (r *Registry) Awaits(name types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.of[name]
	return ok && known.awaits
}

// Holds reports whether a NodeSync holds something because of the number of nodes.
func (r *Registry) Holds(name types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.of[name]
	return ok && known.holds
}

// Answer is the reconcile of a NodeSync that is suspended or only loses its nodes: if another one has requested it, it
// lists what the NodeSync has in Git, and wakes those that wait for it. An entry may have moved from there to here, and
// such a NodeSync renders nothing for itself. Nothing is written.
func (s *PlanStep) Answer(ctx context.Context) {
	notBefore, asked := s.Registry.takeRequest(s.name(), s.Sync.UID)
	if !asked {
		return
	}
	var waiting []types.NamespacedName
	if set, began, err := s.entries(ctx, notBefore); err != nil {
		waiting = s.Registry.fail(s.name(), s.Sync.UID, fault.Classify(err).Reason, s.Now)
	} else {
		waiting = s.Registry.Remember(s.name(), s.Sync.UID, set, s.Sync.Generation, began)
	}
	for _, name := range waiting {
		s.Enqueue(name)
	}
}

// entries returns those of its newest revision. Only their names matter, so no schema is needed. A missing or empty
// folder has none.
func (s *PlanStep) entries(ctx context.Context, notBefore time.Time) (*render.Set, time.Time, error) {
	snapshot, began, err := s.Read(ctx, notBefore)
	if err != nil {
		return nil, began, err
	}
	set := &render.Set{Revision: snapshot.Revision, Commit: snapshot.Commit}
	karpenter, err := render.ReadKarpenter(*snapshot, s.Sync.Spec.Path)
	if err == nil {
		var rendered *render.Set
		if rendered, err = render.Render(ctx, *snapshot, s.Sync.Spec.Path, karpenter, nil, render.WithConfinement(s.Confine)); err == nil {
			set = rendered
		}
	}
	if errors.As(err, new(*render.EmptyError)) || errors.As(err, new(*render.MissingError)) {
		err = nil
	}
	return set, began, err
}
