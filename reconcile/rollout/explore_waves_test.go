package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/rollout/judge"
)

// smallNode is a node, by what it was launched with: the definition of its pool, and the image that an alias resolved to.
type smallNode struct {
	definition string
	image      int
	// state is waiting, launching (its replacement) or draining, and next what its replacement is launched with.
	state string
	next  *smallNode
	since time.Time
}

// smallWorld is a pool whose nodes are replaced in waves: Karpenter replaces them as the disruption budgets allow that it
// has seen, and plumbline looks at them, is killed, is away, or sees what they were before. Karpenter takes longer to
// replace a node than plumbline takes to look at it, or, while plumbline is away, than a lease lasts.
type smallWorld struct {
	random *rand.Rand
	now    time.Time
	policy v1alpha1.RolloutWaves
	nodes  map[string]*smallNode
	names  int
	// seen reports whether plumbline has looked since the last replacement began, and looked is what it has seen.
	seen   bool
	looked rollout.BrakePool
	// definition is that of the pool, from the one before the commits that are being rolled out, and pending the one of a
	// commit that is not written yet. image is what the alias resolves to.
	definition, from, pending string
	image                     int
	frozen, held              string
	verdict                   judge.State
	recorded                  []v1alpha1.PoolRollout
	// limits are the disruption budgets, and limitsSeen those that Karpenter has seen.
	limits, limitsSeen smallLimits
	// begun is how many replacements have begun since the first wave, allowed how many the recorded waves have allowed, and
	// free whether as many may begin as the budgets in Git allow: in the last wave, after a revert, and before the first
	// wave of nodes that no commit has outdated is limited.
	begun, allowed int
	free           bool
	// series is when the first wave began, and wave the number of the recorded one.
	series time.Time
	wave   int32
	bad    bool
	// of is the rollout, and looked when plumbline has looked at it last. away is until when the daemon is away, or the NodeSync
	// is suspended, and unusable whether HEAD is.
	of       *v1alpha1.Rollout
	lookedAt time.Time
	away     time.Time
	unusable bool
	// ended is the verdict by which the watch was recorded as over, and at which time.
	ended   judge.State
	endedAt time.Time
	log     []string
}

// smallLimits are a budget of 0 nodes, or a lease of so many until a time, if they are on.
type smallLimits struct {
	on    bool
	lease int
	until time.Time
}

// unlimited reports whether only the budgets in Git limit how many nodes Karpenter replaces.
func (l smallLimits) unlimited() bool { return !l.on || l.lease == plan.AllNodes }

const (
	gitBudget  = 5
	smallWatch = 3 * time.Minute
)

func (w *smallWorld) note(format string, args ...any) {
	w.log = append(w.log, w.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

func (w *smallWorld) outdated(n *smallNode) bool {
	return n.definition != w.definition || n.image != w.image
}

// in returns the names of the nodes in a state, if all is true, else of the outdated ones only.
func (w *smallWorld) in(state string, all bool) []string {
	var found []string
	for name, n := range w.nodes {
		if n.state == state && (all || w.outdated(n)) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

func (w *smallWorld) disrupting() int {
	return len(w.in("launching", true)) + len(w.in("draining", true))
}

// pool returns what plumbline sees.
func (w *smallWorld) pool() rollout.BrakePool {
	p := rollout.BrakePool{Name: "general", Definition: w.definition, Revision: "main@sha1:1", Nodes: rollout.WaveNodes{
		Waiting: w.in("waiting", false), Launching: w.in("launching", false), Draining: w.in("draining", false), Disrupting: w.disrupting(),
	}}
	for _, n := range w.nodes {
		if w.outdated(n) && n.definition == w.definition {
			p.Uncommitted = "AMIDrift"
		}
		began, judges := w.wavesSince()
		if !w.outdated(n) && !judges.IsZero() && !n.since.Before(judges) {
			p.Nodes.New++
			p.Nodes.Earlier++
		}
		if w.outdated(n) && n.state == "waiting" && !began.IsZero() && !n.since.Before(began) {
			p.Nodes.Relaunched++
		}
	}
	return p
}

// wavesSince returns when the first wave began, and since when nodes are judged; zero if none has.
func (w *smallWorld) wavesSince() (began, judges time.Time) {
	if len(w.recorded) == 0 || w.recorded[0].Wave == nil {
		return time.Time{}, time.Time{}
	}
	return w.recorded[0].Wave.Since.Time, w.recorded[0].Wave.JudgesSince().Time
}

// roll is the look at the rollout as a whole, before the brake's. It reports whether the rollout is complete.
func (w *smallWorld) roll(t *testing.T) (complete bool) {
	var unwatched time.Duration
	if gap := w.now.Sub(w.lookedAt); gap > 2*time.Minute {
		unwatched = gap
	}
	w.lookedAt = w.now
	if len(w.recorded) == 0 || w.recorded[0].Wave == nil || w.recorded[0].Wave.Number == 0 || len(w.in("waiting", false))+w.disrupting() > 0 || w.pending != "" {
		w.of = nil
		return false
	}
	if w.of == nil {
		w.of = &v1alpha1.Rollout{Revision: "main@sha1:1", Since: at(0), Nodes: 1}
	}
	if w.of = rollout.Roll(w.of, rollout.Seen{Now: w.now, Waves: w.recorded, WatchFor: smallWatch, Unwatched: unwatched}); w.of != nil {
		return false
	}
	if w.ended != judge.Good && w.ended != judge.Inconclusive && w.ended != "undecided for too long" {
		t.Fatalf("the rollout is complete after the verdict %q at %s: %v", w.ended, w.endedAt, w.log)
	}
	w.note("complete")
	w.recorded, w.from, w.limits, w.series, w.ended = nil, w.definition, smallLimits{}, time.Time{}, ""
	return true
}

// look is one reconcile. It is killed before it writes budgets, or before it saves the status, or not at all. With late,
// it sees the nodes as it has seen them last, and with unknown it does not know which are outdated.
func (w *smallWorld) look(t *testing.T, killed string, late, unknown bool) {
	if !unknown && !late && w.roll(t) {
		return
	}
	fresh := !unknown && (!late || w.looked.Name == "")
	if fresh {
		w.looked = w.pool()
	}
	pool := w.looked
	pool.Definition, pool.Pending, pool.Verdict = w.definition, w.pending != "" && !w.unusable, judge.Verdict{State: w.verdict}
	pool.Edited = w.unusable
	if unknown {
		pool.Nodes, pool.Uncommitted, pool.Verdict, pool.Unknown = rollout.WaveNodes{}, "", judge.Verdict{}, true
	}
	seen := rollout.BrakeSeen{
		Pools: []rollout.BrakePool{pool}, Policy: v1alpha1.RolloutPolicy{Waves: &w.policy}, Frozen: w.frozen, Held: w.held, InForce: w.unusable, Now: w.now,
	}
	if w.of != nil {
		seen.WatchUntil = w.of.WatchUntil
	}
	next, _ := rollout.Next(w.recorded, seen)
	if killed == "before" {
		return
	}
	w.write(next[0], unknown || w.unusable)
	if killed == "after" {
		return
	}
	w.recorded, w.seen = next, w.seen || fresh
	if wave := next[0].Wave; wave != nil && wave.WatchedAt != nil && wave.WatchedAt.Time.Equal(w.now) {
		w.ended, w.endedAt = pool.Verdict.State, w.now
		if w.ended == judge.Undecided && !w.now.Before(seen.WatchUntil.Add(w.policy.GetInconclusiveAfter())) {
			w.ended = "undecided for too long"
		}
	}
	w.record(next[0])
}

// record notes what a recorded state allows.
func (w *smallWorld) record(e v1alpha1.PoolRollout) {
	wave := e.Wave
	switch {
	case wave == nil || wave.Number == 0:
		w.free = w.free || wave == nil && w.definition == w.from // a revert
		return
	case !wave.Since.Time.Equal(w.series):
		w.series, w.wave, w.bad = wave.Since.Time, 0, false
		if w.begun = 0; wave.Leaving == nil {
			w.begun = w.disrupting()
		}
		w.allowed, w.free = w.begun, w.free && (w.limits.unlimited() || w.limitsSeen.unlimited())
	}
	w.bad = w.bad || wave.State == v1alpha1.WaveFailed
	if wave.Number > w.wave {
		w.note("wave %d of %d nodes", wave.Number, wave.Size)
		w.allowed, w.wave, w.verdict = w.allowed+int(wave.Size), wave.Number, judge.Undecided
	}
	w.free = w.free || wave.State == v1alpha1.WaveLast
	if w.free && wave.Limits() && !w.limits.unlimited() && !w.limitsSeen.unlimited() {
		w.free, w.allowed = false, max(w.allowed, w.begun)
	}
}

// write writes the disruption budgets as BrakeStep does: none may begin while it is unknown what Git wants, or which nodes
// are outdated.
func (w *smallWorld) write(e v1alpha1.PoolRollout, closed bool) {
	status := v1alpha1.NodeSyncStatus{PoolRollouts: w.recorded}
	recorded := status.LimitedPools()["general"]
	switch rollout.RulesOf(e, false).Governor() {
	case rollout.ByBrake, rollout.ByFreeze:
		if recorded {
			w.limits = smallLimits{on: true}
		}
	case rollout.ByWave:
		if recorded {
			w.limits = smallLimits{on: true}
			if !closed && rollout.IsRecorded(w.recorded[0].Wave, e.Wave) {
				w.limits.lease, w.limits.until = rollout.WaveBudget(e.Wave), w.now.Add(2*time.Minute)
			}
		}
	default:
		if !recorded && !w.unusable {
			w.limits = smallLimits{}
		}
	}
	if recorded && w.limits.on && w.limits.lease == 0 && w.limitsSeen == w.limits && w.pending != "" && w.frozen == "" && !w.unusable {
		w.commit()
	}
}

// commit writes the commit that waits: all nodes are outdated.
func (w *smallWorld) commit() {
	w.definition, w.pending = w.pending, ""
	w.verdict, w.bad, w.free = judge.Undecided, false, false
	w.begun, w.allowed = 0, 0
	w.note("commit %s", w.definition)
}

// revert writes the definition from before the commits at once.
func (w *smallWorld) revert() {
	if w.pending != "" || w.frozen != "" || w.unusable || w.definition == w.from || len(w.recorded) == 0 || w.recorded[0].Wave == nil {
		return
	}
	w.definition, w.verdict, w.bad, w.free = w.from, judge.Undecided, false, true
	w.note("revert to %s", w.definition)
}

// drift makes the alias resolve to another image: all nodes are outdated by no commit, and as many are replaced as the
// budgets allow until the first wave is recorded.
func (w *smallWorld) drift() {
	if w.pending != "" {
		return
	}
	w.image++
	w.free, w.verdict = w.free || !w.limits.on, judge.Undecided
	w.note("image %d", w.image)
}

// karpenter takes one step. It sees the budgets that were set before its previous one.
func (w *smallWorld) karpenter(t *testing.T) {
	limits := w.limitsSeen
	w.limitsSeen = w.limits
	may := gitBudget
	if limits.on {
		if may = 0; w.now.Before(limits.until) {
			may = min(gitBudget, limits.lease)
		}
	}
	waiting, launching, draining := w.in("waiting", false), w.in("launching", true), w.in("draining", true)
	switch at := w.random.IntN(4); {
	case at == 0 && len(waiting) > 0 && w.disrupting() < may:
		name := waiting[w.random.IntN(len(waiting))]
		w.nodes[name].state, w.nodes[name].next, w.seen = "launching", &smallNode{definition: w.definition, image: w.image, state: "waiting", since: w.now}, false
		w.begun++
		w.note("begins %s, %d of %d", name, w.begun, w.allowed)
		if !w.free && w.begun > w.allowed {
			t.Fatalf("%d replacements have begun, and the waves have %d: %v", w.begun, w.allowed, w.log)
		}
	case at == 1 && w.seen && len(launching) > 0:
		n := w.nodes[launching[0]]
		if w.random.IntN(5) == 0 {
			n.state, n.next, w.begun = "waiting", nil, w.begun-1
			w.note("gives up %s", launching[0])
			return
		}
		n.state = "draining"
		w.names++
		w.nodes[fmt.Sprintf("n%03d", w.names)] = n.next
	case at == 2 && w.seen && len(draining) > 0:
		delete(w.nodes, draining[0])
	}
}

// happens is what users, monitoring and AWS do in a step.
func (w *smallWorld) happens(step int) {
	early := step < 1500
	switch w.random.IntN(100) {
	case 0:
		w.frozen = "audit"
	case 1, 2, 3:
		w.frozen = ""
	case 4:
		w.held = "errors: the query has a result"
	case 5, 6, 7:
		w.held = ""
	case 8, 9, 10, 11, 12, 13, 14, 15:
		w.verdict = []judge.State{judge.Good, judge.Good, judge.Undecided, judge.Inconclusive, ""}[w.random.IntN(5)]
	case 16, 17:
		if early && w.pending == "" {
			w.pending = fmt.Sprint(step)
		}
	case 18:
		if early {
			w.revert()
		}
	case 19:
		if early {
			w.drift()
		}
	case 20:
		if early && w.random.IntN(2) == 0 {
			w.verdict = judge.Bad
		}
	case 21, 22:
		w.away = w.now.Add(time.Duration(w.random.IntN(10)) * time.Minute)
	case 23:
		w.unusable = early
	case 24, 25, 26:
		w.unusable = false
	}
}

// TestExploreWaves plays small worlds with commits, reverts, freezes, conditions, images that change, kills, late looks,
// looks that do not know the nodes, an unusable HEAD, a daemon that is away or a NodeSync that is suspended, and late
// budgets: never more replacements begin than the waves that were judged good allow, no rollout is complete while the last
// verdict is bad, undecided or missing, and each rollout whose workloads are good completes.
func TestExploreWaves(t *testing.T) {
	for seed := range uint64(60) {
		w := &smallWorld{
			random: rand.New(rand.NewPCG(seed, 1)), now: at(0).Time, nodes: map[string]*smallNode{}, names: 4 + int(seed%9), definition: "0", from: "0", pending: "1",
			policy: v1alpha1.RolloutWaves{Start: 1 + int32(seed%2), Factor: 1 + int32(seed%3)}, verdict: judge.Undecided,
		}
		for n := range w.names {
			w.nodes[fmt.Sprintf("n%03d", n)] = &smallNode{definition: "0", state: "waiting"}
		}
		for step := range 4000 {
			w.now = w.now.Add(time.Duration(5+w.random.IntN(30)) * time.Second)
			w.karpenter(t)
			if w.random.IntN(10) > 0 && !w.now.Before(w.away) { // otherwise it is away
				w.look(t, []string{"", "", "", "", "before", "after"}[w.random.IntN(6)], w.random.IntN(5) == 0, w.random.IntN(8) == 0)
			}
			w.happens(step)
		}
		if left := len(w.in("waiting", false)); !w.bad && (left > 0 || w.pending != "") {
			t.Fatalf("world %d: %d nodes are outdated, and the pool is %+v: %v", seed, left, w.recorded, w.log)
		}
	}
}
