package removal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// pass runs one reconcile in a world, with the production code of plan, apply, removal and teardown. meanwhile happens
// during the reconcile; it may be nil.
func (s *shelf) pass(ctx context.Context, before world, meanwhile func(*world)) *explored {
	x := &explored{shelf: s, before: before, world: before, meanwhile: meanwhile, acts: -1, holds: map[types.UID]bool{}}
	sync := before.nodeSync(true)
	live := x.live()
	set := s.set(&before)
	planned, err := s.plan(ctx, &before, set, live, sync)
	if err != nil {
		x.breaks("no plan: %v", err)
		return x
	}
	for _, c := range planned.Removals {
		x.holds[c.UID] = c.Held
		x.held[int(c.Ref.Name[0]-'a')], x.lets[int(c.Ref.Name[0]-'a')] = c.Held, !c.Held && !before.known.drain
	}
	x.said(planned.Removals)
	applied := apply.Apply(ctx, reads{explored: x}, planned.Changes, apply.Options{Uncached: reads{explored: x}, Arrivals: &apply.Arrivals{}, Owner: exploredOwner, Concurrency: 1})
	whole := len(applied.Failed) == 0
	for _, c := range planned.Changes {
		whole = whole && c.Action.Writes()
	}
	memory := Memory{absent: before.absent, evicted: maps.Clone(before.evicted), settled: before.settled}
	step := x.step(sync, &memory)
	step.Set, step.Live, step.Plan, step.Revision, step.Applied = set, live, planned, before.revision(), whole
	for _, w := range applied.Written {
		step.Written = append(step.Written, plan.Write{Ref: w.Ref, New: w.Action == plan.Create, CreatedAt: w.Object.GetCreationTimestamp()})
	}
	take := step.Run
	if before.known.drain {
		take = step.Drain
	}
	if _, err := take(ctx); err != nil && !expectedIn(err) {
		x.breaks("the pass fails: %v", err)
	}
	x.world.absent, x.world.evicted, x.world.settled = memory.absent, memory.evicted, memory.settled
	if x.world.spec == before.known { // otherwise another client has written the NodeSync since, and the status update is refused
		x.wrote(true, "the status is written", func(w *world) {
			w.removals, w.recent = sync.Status.Removals, sync.Status.RecentRemovals
			w.released = x.released(w)
		})
		x.ended()
		x.drained()
	}
	x.world.still()
	return x
}

// mostPlans is how many plans are cached: random worlds seldom reach the same one again.
const mostPlans = 10_000

// planKey is equal for worlds with the same input of a plan.
func (s *shelf) planKey(w *world) string {
	key := fmt.Sprint(w.revision(), w.git[ownClass], w.known, w.frozen, *w.cachedPools(), w.cachedClaims()[:w.nodes()])
	if w.approved != nil {
		key += w.approved.Digest
	}
	for _, r := range w.removals {
		key += fmt.Sprint("|", r.UID, r.Phase, r.Reason, r.Approved, r.Revision, r.RecordedAt.Time.Equal(exploredNow))
	}
	for _, r := range w.recent {
		key += fmt.Sprint("|", r.UID, r.Nodes)
	}
	return key
}

// plan returns the plan of the production code, which is made once for worlds with the same input.
func (s *shelf) plan(ctx context.Context, w *world, set *render.Set, live plan.Live, sync *v1alpha1.NodeSync) (*plan.Plan, error) {
	key := s.planKey(w)
	if known, ok := s.plans[key]; ok {
		return known, nil
	}
	live.Memo = s.memo
	made, err := plan.Make(ctx, set, live, plan.Policy{
		Owner: exploredOwner, Adopt: v1alpha1.AdoptIfIdentical, Drift: v1alpha1.DriftCorrect, NewRevision: true, Guard: dated(sync.Spec.Guard), Approved: w.plans(), Now: w.now(),
		Deleting: sync.KeepsDefinitions(), Keeps: sync.KeepsDefinitions(),
	}, s.server)
	if err == nil {
		s.memo = made.Memo
	}
	if len(s.plans) == mostPlans {
		clear(s.plans)
	}
	s.plans[key] = made
	return made, err
}

// expectedIn reports whether an error of a reconcile results only from another client's writes.
func expectedIn(err error) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return !slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return !expectedIn(one) })
	}
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

// step returns the Step of the production code for the world.
func (x *explored) step(sync *v1alpha1.NodeSync, memory *Memory) *Step {
	cached, uncached := reads{explored: x, cached: true}, reads{explored: x}
	ready := cluster.ByRef{render.Ref{Kind: render.EC2NodeClass, Name: "default"}: cluster.Readiness{Ready: true}} // class e may move there
	for p := range mostPools {
		ready[render.Ref{Kind: render.NodePool, Name: poolName(p)}] = cluster.Readiness{Ready: true}
	}
	return &Step{
		Tools: Tools{
			Client: cached, Uncached: uncached, StillLeader: x.stillLeader,
			Nodes:   cluster.Clients{Client: cached, Uncached: uncached, Launches: &cluster.Launches{Now: func() time.Time { return exploredNow }}},
			Reached: func(string, string) {},
			EC2:     func(context.Context, string) (EC2, error) { return uncached, nil },
		},
		Sync: sync, Before: x.before.nodeSync(true), Memory: memory, Now: exploredNow, Served: true, Ready: ready,
		View:  &cluster.View{Cached: cached, Uncached: uncached},
		Alive: x.before.ready, Cluster: "demo", Region: "eu-west-1",
		Account: &cloud.Verdict{OK: x.before.verified, Message: "another account"},
		Withheld: func(context.Context, *v1alpha1.NodeSync, func(context.Context) (bool, error)) *v1alpha1.Withheld {
			return nil
		},
		ReadSince: func(time.Time) (bool, string, time.Time) { return true, "", time.Time{} },
		NewOwner: func(context.Context) (func(*unstructured.Unstructured) string, error) {
			return func(*unstructured.Unstructured) string { return "" }, nil
		},
	}
}

// live returns the live objects in the caches.
func (x *explored) live() plan.Live {
	w := &x.before
	live := plan.Live{Objects: map[render.Ref]*plan.Object{}, Served: true, Removals: slices.Clone(w.removals), RecentRemovals: slices.Clone(w.recent)}
	live.Objects[render.Ref{Kind: render.EC2NodeClass, Name: "default"}] = x.shelf.forms[x.shelf.class].object
	for p, number := range w.cachedPools() {
		if number != nowhere {
			live.Objects[render.Ref{Kind: kindOf(p), Name: poolName(p)}] = x.shelf.forms[number].object
		}
	}
	for n, c := range w.cachedClaims()[:w.nodes()] {
		if there(c.claim) {
			live.NodeClaims = append(live.NodeClaims, cluster.NodeClaim(w.nodeClaim(n, c)))
		}
	}
	return live
}

// set returns what is in Git; nil if the nodes are drained, and Git is not read.
func (s *shelf) set(w *world) *render.Set {
	if w.known.drain {
		return nil
	}
	set := &render.Set{Revision: w.revision(), Objects: []render.Object{s.definition("")}}
	if w.git[ownClass] {
		set.Objects = append(set.Objects, s.definition(poolName(ownClass)))
	}
	for p := range w.setting.pools {
		if w.git[p] {
			set.Objects = append(set.Objects, s.definition(poolName(p)))
		}
	}
	return set
}

// successor is a world to which one event leads.
type successor struct {
	event string
	world world
	// fair reports whether the event is bound to happen sooner or later, if it can.
	fair   bool
	broken string
}

// passes returns the possible outcomes of a reconcile in a world: it completes, it crashes anywhere, or any other event
// happens during it.
func (s *shelf) passes(ctx context.Context, w world) []successor {
	x := s.pass(ctx, w, nil)
	found := []successor{{x.describe("a pass"), x.world, true, x.broken}}
	if w.faults == 0 || x.broken != "" {
		return found
	}
	found = append(found, x.crashes()...)
	if x.acts < 0 || x.acts == len(x.effects)-1 {
		return found // it terminates and stops nothing
	}
	for _, e := range s.events(&w) {
		y := s.pass(ctx, w, e.do)
		y.world.faults = w.faults - 1
		found = append(found, successor{y.describe("a pass, and in its midst " + e.what), y.world, false, y.broken})
	}
	return found
}

// describe returns what a reconcile has written.
func (x *explored) describe(what string) string {
	words := make([]string, 0, len(x.effects))
	for _, e := range x.effects {
		if e.what != "the status is written" {
			words = append(words, e.what)
		}
	}
	slices.Sort(words[max(0, min(x.acts, len(words))):])
	for _, r := range x.world.removals {
		words = append(words, fmt.Sprintf("%s %s %s", r.Name, r.Phase, r.Reason))
	}
	return what + ": " + strings.Join(words, ", ")
}

// crashes returns the worlds that a killed reconcile leaves: after each of the sequential writes, and after any of the
// concurrent ones.
func (x *explored) crashes() (found []successor) {
	acts := x.acts
	if acts < 0 {
		acts = len(x.effects)
	}
	add := func(done []effect) {
		w := x.before
		words := []string{}
		for _, e := range done {
			e.do(&w)
			words = append(words, e.what)
		}
		w.faults--
		w.absent, w.evicted, w.settled, w.latePools, w.lateClaims, w.known = nil, nil, false, nil, nil, w.spec
		w.still()
		slices.Sort(words[min(acts, len(words)):])
		found = append(found, successor{event: "a pass that is killed after: " + strings.Join(words, ", "), world: w})
	}
	for n := range acts + 1 {
		add(x.effects[:n])
	}
	side := slices.DeleteFunc(slices.Clone(x.effects[acts:]), func(e effect) bool { return e.what == "the status is written" })
	slices.SortFunc(side, func(a, b effect) int { return strings.Compare(a.what, b.what) })
	for some := 1; some < 1<<len(side); some++ {
		done := slices.Clone(x.effects[:acts])
		for i, e := range side {
			if some&(1<<i) != 0 {
				done = append(done, e)
			}
		}
		add(done)
	}
	return found
}
