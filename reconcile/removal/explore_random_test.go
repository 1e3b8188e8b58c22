package removal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

const (
	// randomWorlds is the number of random worlds, and wandered the number of events in each before it comes to rest.
	randomWorlds = 10_000
	wandered     = 24
)

// TestExploreRandomWorlds takes one random path through each of many larger worlds, with any number of faults and
// commits, and then lets each come to rest.
func TestExploreRandomWorlds(t *testing.T) {
	seed := uint64(1)
	if text := os.Getenv(property.Variable); text != "" { //nolint:forbidigo // tests have no cmd
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
		if seed == 0 {
			seed = uint64(time.Now().UnixNano())
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(2000)) // little is kept, and many objects are allocated
	s, began, steps, ended, reverted, replaced, drained, resumed, moved := newShelf(t), time.Now(), 0, 0, 0, 0, 0, 0, 0
	for n := range randomWorlds {
		r := rand.New(rand.NewPCG(seed, uint64(n))) //nolint:gosec // draws of a test
		w := &wanderer{t: t, shelf: s, rand: r, world: randomWorld(s, r)}
		w.wander()
		w.comeToRest()
		if broken := w.broken; broken != "" {
			t.Fatalf("world %d: %s (%s=%d repeats it)\n%s", n, broken, property.Variable, seed, strings.Join(w.way, "\n"))
		}
		steps, ended, reverted = steps+len(w.way), ended+w.ended, reverted+w.reverted
		drained, resumed, moved = drained+w.drained, resumed+w.resumed, moved+bit(w.moved)
		for _, is := range w.world.slots {
			replaced += bit(is.placed)
		}
	}
	t.Logf("%d worlds, %d steps, %d NodeClaims ended by removals, %d replaced by Karpenter for them, %d by drains, %d reverts, %d drains taken back, %d worlds with a move, %s", randomWorlds, steps, ended, replaced, drained, reverted, resumed, moved, time.Since(began).Round(time.Millisecond))
	if ended < randomWorlds/4 || replaced < randomWorlds/5 || reverted < randomWorlds/20 || drained < randomWorlds/4 || resumed < randomWorlds/20 || moved < randomWorlds/50 {
		t.Errorf("%d NodeClaims were ended, %d replaced, %d drained, %d removals reverted, %d drains taken back and %d moves made in %d worlds: does nothing happen in them any more?", ended, replaced, drained, reverted, resumed, moved, randomWorlds)
	}
}

// randomWorld returns a world with one to four pools, three to eight nodes and any pace.
func randomWorld(s *shelf, r *rand.Rand) world {
	of := &setting{pools: 1 + r.IntN(mostPools), spare: r.IntN(3) > 0}
	if of.pools == 1 {
		of.spare = false
	}
	of.removal = paced([]intstr.IntOrString{intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("10%"), intstr.FromString("50%"), intstr.FromString("100%")}[r.IntN(5)], 30*time.Second)
	if r.IntN(4) == 0 {
		of.removal.Strategy = v1alpha1.RemovalAtOnce
	}
	of.classLeaves, of.moves = r.IntN(2) == 0, r.IntN(2) == 0
	if r.IntN(3) == 0 {
		of.removal.Grace.Duration = 0
	}
	own := of.pools
	if of.spare {
		own--
	}
	var launched []int
	for n := range 3 + r.IntN(mostNodes-2) {
		of.of = append(of.of, r.IntN(own))
		if r.IntN(4) > 0 {
			launched = append(launched, n)
		}
	}
	for n := range of.stays {
		of.stays[n] = r.IntN(5) == 0
	}
	w := newWorld(s, of, launched...)
	w.allows = r.IntN(2) == 0
	w.known = w.spec
	if q := of.pools - 1; of.moves && !of.spare && q > 0 && !slices.Contains(of.of, q) {
		w.git[q], w.pools[q] = false, nowhere
	}
	w.approvals, w.freezes = int8(r.IntN(3)), int8(r.IntN(3))
	w.commits, w.faults, w.drains = 100, 100, int8(r.IntN(3))
	return w
}

// wanderer takes one path through one world.
type wanderer struct {
	t     *testing.T
	shelf *shelf
	rand  *rand.Rand
	world world
	// way are the events so far, and broken is the invariant that the last one has violated.
	way    []string
	broken string
	// ended counts NodeClaims that removals have terminated, drained those that drains have, reverted counts reverted
	// removals, and resumed those that a drain had recorded.
	ended, drained, reverted, resumed int
	// moved reports whether a removal was a move.
	moved bool
}

func (w *wanderer) wander() {
	// Most faults need a removal that has started.
	w.world.toggle(0)
	w.way = append(w.way, "a commit takes NodePool/a out of Git")
	if q := w.world.setting.pools - 1; w.world.moves && !w.world.git[q] {
		w.world.toggle(q)
		w.way = append(w.way, "and has NodePool/"+poolName(q))
	}
	for range wandered {
		if w.broken != "" {
			return
		}
		events := w.shelf.events(&w.world)
		switch n := w.rand.IntN(10); {
		case n < 3:
			w.pass(nil)
		case n == 3 && len(events) > 0:
			happens := events[w.rand.IntN(len(events))]
			w.way = append(w.way, "in the midst of the next pass: "+happens.what)
			w.pass(happens.do)
		case n == 4:
			w.killed()
		default:
			// Events that are bound to happen are more frequent than others.
			happens := events[w.rand.IntN(len(events))]
			for range 3 {
				if !happens.fair {
					happens = events[w.rand.IntN(len(events))]
				}
			}
			w.way = append(w.way, happens.what)
			happens.do(&w.world)
		}
	}
}

func (w *wanderer) pass(meanwhile func(*world)) {
	x := w.shelf.pass(w.t.Context(), w.world, meanwhile)
	w.way = append(w.way, x.describe("a pass"))
	if x.before.known.drain {
		w.drained += x.ends
	} else {
		w.ended += x.ends
	}
	for _, r := range x.before.removals {
		w.moved = w.moved || len(r.MovesTo) > 0
		switch {
		case removalOf(x.world.removals, r.UID) != nil || !x.wants(int(r.Name[0]-'a')):
		case r.Revision == plan.RevisionDeleted:
			w.resumed++
		default:
			w.reverted++
		}
	}
	w.world, w.broken = x.world, x.broken
}

// killed kills a reconcile somewhere.
func (w *wanderer) killed() {
	x := w.shelf.pass(w.t.Context(), w.world, nil)
	crashes := x.crashes()
	killed := crashes[w.rand.IntN(len(crashes))]
	w.way = append(w.way, killed.event)
	w.world, w.broken = killed.world, x.broken
}

// comeToRest allows only events that are bound to happen, until nothing is left to do. Half of the drained worlds are
// reverted.
func (w *wanderer) comeToRest() {
	w.world.faults, w.world.commits = 0, 0
	if w.world.drain && w.rand.IntN(2) == 0 {
		w.world.drain = false
		w.way = append(w.way, "a person takes the drain back")
	}
	for range 60 + 12*w.world.nodes() {
		if w.broken != "" || w.shelf.rests(&w.world) {
			return
		}
		for _, happens := range w.shelf.events(&w.world) {
			if happens.fair && !strings.HasPrefix(happens.what, "Karpenter makes") {
				happens.do(&w.world)
			}
		}
		w.pass(nil)
	}
	w.broken = fmt.Sprintf("it does not come to rest: %+v", w.world.removals)
}
