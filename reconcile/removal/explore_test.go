package removal

import (
	"context"
	"fmt"
	"hash/maphash"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// exploration contains every state that small worlds reach, breadth first.
type exploration struct {
	*shelf
	ctx   context.Context
	seeds [2]maphash.Seed
	known map[[2]uint64]int32
	// worlds are those that are not yet expanded, by number. parents and events are how each was first reached.
	worlds  []*world
	parents []int32
	events_ []string
	// fair are the steps that are bound to be taken, backwards, and resting the worlds in which nothing is left to do.
	fair    [][]int32
	resting []int32
	steps   int
}

func explore(t *testing.T, s *shelf, begin ...world) *exploration {
	t.Helper()
	e := &exploration{shelf: s, ctx: t.Context(), known: map[[2]uint64]int32{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for i := range begin {
		e.reach(-1, successor{event: "begin", world: begin[i]})
	}
	for at := 0; at < len(e.worlds); at++ {
		w := e.worlds[at]
		if broken := e.expand(int32(at), w); broken != "" {
			t.Fatalf("%s\n%s", broken, e.trace(int32(at)))
		}
		e.worlds[at] = nil
	}
	e.mustRest(t)
	return e
}

// expand takes every step from a world.
func (e *exploration) expand(at int32, w *world) (broken string) {
	next := e.passes(e.ctx, *w)
	if e.rests(w) {
		e.resting = append(e.resting, at)
	}
	for _, happens := range e.events(w) {
		after := *w
		happens.do(&after)
		next = append(next, successor{event: happens.what, world: after, fair: happens.fair})
	}
	for _, s := range next {
		e.steps++
		if s.broken != "" {
			return s.broken + "\nin: " + s.event
		}
		to := e.reach(at, s)
		if s.fair && to != at {
			e.fair[to] = append(e.fair[to], at)
		}
	}
	return ""
}

func (e *exploration) reach(from int32, s successor) int32 {
	text := s.world.key()
	key := [2]uint64{maphash.String(e.seeds[0], text), maphash.String(e.seeds[1], text)}
	if number, known := e.known[key]; known {
		return number
	}
	number := int32(len(e.worlds))
	e.known[key] = number
	w := s.world
	e.worlds, e.parents, e.events_ = append(e.worlds, &w), append(e.parents, from), append(e.events_, s.event)
	e.fair = append(e.fair, nil)
	return number
}

// mustRest checks that from every world, a path without further faults leads to one in which everything matches Git.
func (e *exploration) mustRest(t *testing.T) {
	t.Helper()
	ends := make([]bool, len(e.worlds))
	todo := append([]int32{}, e.resting...)
	for _, n := range todo {
		ends[n] = true
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range e.fair[n] {
			if !ends[from] {
				ends[from] = true
				todo = append(todo, from)
			}
		}
	}
	for n := range ends {
		if !ends[n] {
			t.Fatalf("from here nothing leads to an end:\n%s", e.trace(int32(n)))
		}
	}
}

func (e *exploration) trace(n int32) string {
	var lines []string
	for ; n >= 0; n = e.parents[n] {
		lines = append([]string{e.events_[n]}, lines...)
	}
	for i := range lines {
		lines[i] = fmt.Sprintf("%3d %s", i, lines[i])
	}
	return strings.Join(lines, "\n")
}

// rests reports whether everything matches Git, and nothing is in progress. What the guard holds, or what waits for a
// person to approve the removal of the last pool, stays as it is, and grows.
func (s *shelf) rests(w *world) bool {
	if !w.calm() || w.remembers() {
		return false
	}
	if w.drain {
		return s.restsDrained(w)
	}
	held := map[string]bool{}
	for _, r := range w.removals {
		held[r.Name] = true
	}
	for _, r := range w.removals {
		waits := r.Kind == render.EC2NodeClass && held[poolName(0)]
		if r.Phase != v1alpha1.RemovalHeld && !w.leavesNone() && !waits {
			return false
		}
	}
	for p := range w.setting.pools {
		if w.pools[p] != nowhere && len(w.removals) == 0 && w.record[string(s.forms[w.pools[p]].object.GetUID())] != "" {
			return false
		}
		if !w.git[p] && !held[poolName(p)] {
			if w.pools[p] != nowhere || s.remains(w, p) {
				return false
			}
			continue
		}
		if w.pools[p] == nowhere {
			return false
		}
		f := s.forms[w.pools[p]]
		if !f.grows || !f.labelled || (f.restrained || !f.limits) && !held[poolName(p)] || !f.budgets && !w.lost && f.object.GetDeletionTimestamp() == nil {
			return false
		}
	}
	return s.classRests(w, held[poolName(0)])
}

// remembers reports whether no removal is open, and what a reverted one has left is recorded.
func (w *world) remembers() bool {
	for uid := range w.record {
		if len(w.removals) == 0 && strings.HasSuffix(uid, ".reverted") {
			return true
		}
	}
	return false
}

// leavesNone reports whether no pool is left in Git, although that is no longer allowed: a removal that has started
// waits for a pool that takes the pods, and the pool may grow meanwhile.
func (w *world) leavesNone() bool { return !w.allows && w.noPools() }

// classRests reports whether the class of pool a matches Git, or waits for the pool, which is held.
func (s *shelf) classRests(w *world, held bool) bool {
	if w.pools[ownClass] == nowhere {
		return !w.git[ownClass]
	}
	class := s.forms[w.pools[ownClass]]
	if w.git[ownClass] {
		return class.labelled && (len(w.removals) > 0 || w.record[string(class.object.GetUID())] == "")
	}
	return held
}

// remains reports whether a NodeClaim or an instance of a pool is left.
func (s *shelf) remains(w *world, p int) bool {
	for n, is := range w.slots[:w.nodes()] {
		if w.of[n] == p && (there(is.claim) || alive(is.instance)) {
			return true
		}
	}
	return false
}

func paced(most intstr.IntOrString, grace time.Duration) v1alpha1.RemovalPolicy {
	return v1alpha1.RemovalPolicy{MaxUnavailable: &most, Grace: &metav1.Duration{Duration: grace}, StallAfter: &metav1.Duration{Duration: 100 * long}}
}

// TestExplore explores every order of events in small worlds, breadth first, so that a violated invariant is shown with
// the fewest events. PLUMBLINE_FULL=1 explores larger worlds.
func TestExplore(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	for name, c := range map[string]struct {
		pools           int
		of, launched    []int
		commits, faults int8
		drains          int8
		states          int
		// full is only explored with PLUMBLINE_FULL=1. With class, pool a has its own class. With leaves, all pools are
		// removed from Git at the start, and the guard allows it. With unseen, the first node is terminating at the
		// start, and missing in the cache. Worlds that may be drained have no pool that stays in Git.
		full, class, leaves, unseen bool
	}{
		"two pools, three nodes":         {2, []int{0, 0, 1}, []int{0, 1, 2}, 1, 1, 0, 20_000, false, false, false, false},
		"two pools, a commit more":       {2, []int{0, 0, 1}, []int{0, 1, 2}, 2, 1, 0, 50_000, true, false, false, false},
		"one pool, two nodes":            {1, []int{0, 0}, []int{0, 1}, 1, 1, 0, 10_000, false, false, false, false},
		"a node that comes late":         {1, []int{0, 0}, []int{0}, 1, 1, 0, 5_000, true, false, false, false},
		"two pools, more than one fault": {2, []int{0, 0, 1}, []int{0, 1, 2}, 2, 2, 0, 1_000_000, true, false, false, false},
		"a pool and its class":           {1, []int{0, 0}, []int{0, 1}, 2, 1, 0, 10_000, false, true, false, false},
		"two pools leave":                {2, []int{0, 0, 1}, []int{0, 2}, 0, 2, 0, 10_000, true, false, true, false},
		"two leave, one comes back":      {2, []int{0, 1, 1}, []int{0, 1, 2}, 1, 0, 0, 300, false, false, true, false},
		"drained, and taken back":        {1, []int{0}, []int{0}, 0, 1, 1, 4_000, false, false, false, false},
		"drained, and out of Git":        {1, []int{0}, []int{0}, 2, 0, 1, 500, false, false, false, false},
		"drained, a commit and a fault":  {1, []int{0}, []int{0}, 1, 1, 1, 10_000, true, false, false, false},
		"two drained, a commit":          {2, []int{0, 1}, []int{0, 1}, 1, 0, 1, 10_000, true, false, false, false},
		"drained amid a removal":         {1, []int{0, 0}, []int{0, 1}, 1, 1, 1, 20_000, true, false, false, false},
		"drained twice":                  {1, []int{0}, []int{0}, 0, 1, 2, 4_000, true, false, false, false},
		"a pool and its class, drained":  {1, []int{0}, []int{0}, 1, 1, 1, 10_000, true, true, false, false},
		"two leave, one node unseen":     {2, []int{0, 1}, []int{0, 1}, 0, 0, 0, 100, false, false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, full := os.LookupEnv("PLUMBLINE_FULL"); c.full && !full {
				t.Skip("takes minutes: explored with PLUMBLINE_FULL=1")
			}
			s, began := newShelf(t), time.Now()
			w := newWorld(s, &setting{pools: c.pools + bit(c.drains == 0), spare: c.drains == 0, classLeaves: c.class, of: c.of, removal: paced(intstr.FromInt32(1), 30*time.Second)}, c.launched...)
			w.commits, w.faults, w.drains = c.commits, c.faults, c.drains
			if c.leaves {
				w.git[0], w.git[1], w.allows, w.known = false, false, true, spec{allows: true}
			}
			if c.unseen {
				w.lateClaims = w.claimsNow()
				w.lateClaims[0].claim, w.slots[0].deleting = unmade, true
			}
			e := explore(t, s, w)
			t.Logf("%d states, %d steps from one to another, %d plans, %s", len(e.parents), e.steps, len(s.plans), time.Since(began).Round(time.Millisecond))
			if len(e.parents) < c.states {
				t.Errorf("%d states, and there were at least %d: is something not explored any more?", len(e.parents), c.states)
			}
		})
	}
}
