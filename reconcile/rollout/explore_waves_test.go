package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/rollout/judge"
)

// smallWorld is a pool whose nodes are replaced in waves: Karpenter replaces them as the disruption budgets allow, and
// plumbline looks at them, is killed, or is away. Karpenter takes longer to replace a node than plumbline takes to look at
// it, or, while plumbline is away, than a lease lasts.
type smallWorld struct {
	random *rand.Rand
	now    time.Time
	policy v1alpha1.RolloutWaves
	// outdated are the states of the outdated nodes, by name, and fresh is the number of new ones. seen reports whether
	// plumbline has looked since the last replacement began.
	outdated map[string]string
	fresh    int
	seen     bool
	// definition is that of the pool, and pending the one of a commit that is not written yet.
	definition, pending string
	frozen              string
	verdict             judge.State
	recorded            []v1alpha1.PoolRollout
	// limited reports whether the budget of 0 nodes is set, or a lease of so many nodes until a time.
	limited bool
	lease   int
	until   time.Time
	// begun is how many replacements have begun since the first wave, allowed how many the recorded waves have allowed, and
	// unlimited whether the last one is recorded. bad reports whether bad workloads are recorded.
	begun, allowed int
	unlimited, bad bool
	wave           int32
	log            []string
}

const gitBudget = 5

func (w *smallWorld) names(state string) []string {
	var all []string
	for name, is := range w.outdated {
		if is == state {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

func (w *smallWorld) disrupting() int { return len(w.names("launching")) + len(w.names("draining")) }

// look is one reconcile. It is killed before it writes budgets, or before it saves the status, or not at all.
func (w *smallWorld) look(killed string) {
	pool := rollout.BrakePool{
		Name: "general", Definition: w.definition, Revision: "main@sha1:1", Verdict: judge.Verdict{State: w.verdict}, Pending: w.pending != "",
		Nodes: rollout.WaveNodes{
			Waiting: w.names("waiting"), Launching: w.names("launching"), Draining: w.names("draining"), Disrupting: w.disrupting(), New: w.fresh,
		},
	}
	next, _ := rollout.Next(w.recorded, rollout.BrakeSeen{
		Pools: []rollout.BrakePool{pool}, Policy: v1alpha1.RolloutPolicy{Waves: &w.policy}, Frozen: w.frozen, Now: w.now,
	})
	if killed == "before" {
		return
	}
	w.write(next[0])
	if killed == "after" {
		return
	}
	w.recorded, w.seen = next, true
	wave := next[0].Wave
	w.bad = w.bad || wave != nil && wave.State == v1alpha1.WaveFailed
	if wave != nil && wave.Number > w.wave {
		w.allowed, w.wave = w.allowed+int(wave.Size), wave.Number
	}
	w.unlimited = w.unlimited || wave != nil && wave.State == v1alpha1.WaveLast
}

// write writes the disruption budgets as BrakeStep does.
func (w *smallWorld) write(e v1alpha1.PoolRollout) {
	status := v1alpha1.NodeSyncStatus{PoolRollouts: w.recorded}
	recorded := status.LimitedPools()["general"]
	switch rollout.RulesOf(e, false).Governor() {
	case rollout.ByBrake, rollout.ByFreeze:
		if recorded {
			w.limited, w.lease = true, 0
		}
	case rollout.ByWave:
		if recorded {
			w.limited, w.lease, w.until = true, 0, w.now.Add(2*time.Minute)
			if was := w.recorded[0].Wave; was != nil && was.Number == e.Wave.Number && was.State == v1alpha1.WaveOpen {
				w.lease = rollout.WaveBudget(e.Wave)
			}
		}
	default:
		if !recorded {
			w.limited = false
		}
	}
	if status.LimitedPools()["general"] && w.limited && w.lease == 0 && w.pending != "" && w.frozen == "" {
		w.commit()
	}
}

// commit writes the commit that waits: all nodes are outdated.
func (w *smallWorld) commit() {
	w.definition, w.pending = w.pending, ""
	for n := range w.fresh {
		w.outdated[fmt.Sprintf("%s-%d", w.definition, n)] = "waiting"
	}
	w.fresh, w.verdict, w.bad = 0, judge.Undecided, false
	w.wave, w.begun, w.allowed, w.unlimited = 0, 0, 0, false
	w.log = append(w.log, "commit "+w.definition)
}

// karpenter takes one step.
func (w *smallWorld) karpenter(t *testing.T) {
	may := gitBudget
	if w.limited {
		if may = 0; w.now.Before(w.until) {
			may = min(gitBudget, w.lease)
		}
	}
	waiting := w.names("waiting")
	switch at := w.random.IntN(4); {
	case at == 0 && len(waiting) > 0 && w.disrupting() < may:
		name := waiting[w.random.IntN(len(waiting))]
		w.outdated[name], w.seen = "launching", false
		w.begun++
		w.log = append(w.log, "begins "+name)
		if w.wave > 0 && !w.unlimited && w.limited && w.begun > w.allowed {
			t.Fatalf("%d replacements have begun, and the waves have %d: %v", w.begun, w.allowed, w.log)
		}
		if w.bad && w.limited && w.lease == 0 {
			t.Fatalf("a replacement begins although workloads are bad: %v", w.log)
		}
	case at == 1 && w.seen && len(w.names("launching")) > 0:
		name := w.names("launching")[0]
		if w.random.IntN(5) == 0 {
			w.outdated[name], w.begun = "waiting", w.begun-1
			w.log = append(w.log, "gives up "+name)
			return
		}
		w.outdated[name] = "draining"
		w.fresh++
	case at == 2 && w.seen && len(w.names("draining")) > 0:
		delete(w.outdated, w.names("draining")[0])
	}
}

// TestExploreWaves plays small worlds with commits, freezes, kills and late reconciles: never more replacements begin than
// the waves that were judged good allow, and each rollout whose workloads are good completes.
func TestExploreWaves(t *testing.T) {
	for seed := range uint64(50) {
		w := &smallWorld{
			random: rand.New(rand.NewPCG(seed, 1)), now: at(0).Time, outdated: map[string]string{}, fresh: 4 + int(seed%9), definition: "0", pending: "1",
			policy: v1alpha1.RolloutWaves{Start: 1 + int32(seed%2), Factor: 1 + int32(seed%3)}, verdict: judge.Undecided,
		}
		for step := range 3000 {
			w.now = w.now.Add(time.Duration(5+w.random.IntN(30)) * time.Second)
			w.karpenter(t)
			if w.random.IntN(10) > 0 { // otherwise it is away
				w.look([]string{"", "", "", "", "before", "after"}[w.random.IntN(6)])
			}
			switch w.random.IntN(60) {
			case 0:
				w.frozen = "audit"
			case 1, 2, 3:
				w.frozen = ""
			case 4, 5, 6, 7, 8, 9:
				w.verdict = []judge.State{judge.Good, judge.Good, judge.Undecided, judge.Inconclusive}[w.random.IntN(4)]
			case 10:
				if step < 500 && w.pending == "" {
					w.pending = fmt.Sprint(step)
				}
			case 11:
				if step < 500 && w.random.IntN(4) == 0 {
					w.verdict = judge.Bad
				}
			}
		}
		if !w.bad && (len(w.outdated) > 0 || w.pending != "") {
			t.Fatalf("world %d: %d nodes are outdated, and the pool is %+v, wave %+v: %v", seed, len(w.outdated), w.recorded[0], w.recorded[0].Wave, w.log)
		}
	}
}
