package removal

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// In addition to the invariants of removals, these are checked if people approve, and freezes start and end:
//
//   - Without a limit that allows it and without an Approval, at most one removal of a pool starts, and not that of
//     the last one: said. What was approved stays approved if the Approval is deleted afterwards.
//   - In a freeze, no growth is stopped of a pool that has nodes, and no node is terminated or replaced, except by a
//     drain, which is requested explicitly: thaws. What already drains, and what is empty, is terminated.

// word is the people's part of a world, apart from its NodeSync.
type word struct {
	// approvals and freezes are how many more of each are possible.
	approvals, freezes int8
	frozen             bool
	// approved is the approved plan; nil if there is none.
	approved *v1alpha1.ApprovedPlan
}

// key is equal for those with the same future.
func (w word) key() string {
	said := ""
	if w.approved != nil {
		said = w.approved.Digest
	}
	return fmt.Sprint("W", w.approvals, w.freezes, w.frozen, said)
}

// dated returns a guard with the day after the worlds' time as a freeze, and the time at which a plan is made: during
// the freeze, or before.
func dated(says v1alpha1.Guard) v1alpha1.Guard {
	says.Freeze = []v1alpha1.GuardFreeze{{From: "2026-03-02", To: "2026-03-02"}}
	return says
}

func (w word) now() time.Time {
	if w.frozen {
		return exploredNow.Add(long)
	}
	return exploredNow
}

// plans returns the approved plans.
func (w word) plans() []v1alpha1.ApprovedPlan {
	if w.approved == nil {
		return nil
	}
	return []v1alpha1.ApprovedPlan{*w.approved}
}

// words makes a person approve what the last plan holds, or revert that, and freezes start and end.
func (s *shelf) words(w *world, fair may, person func(what string, do func(*world))) {
	if made := s.plans[s.planKey(w)]; w.approvals > 0 && made != nil && made.Approvable != nil {
		a := made.Approvable
		person("a person approves what is held", func(w *world) {
			w.approvals--
			w.approved = &v1alpha1.ApprovedPlan{Digest: a.Digest, WeighedBy: a.WeighedBy, By: []string{"a"}, At: metav1.NewTime(exploredNow), Entries: a.Entries}
		})
	}
	if w.approved != nil {
		person("the approval expires", func(w *world) { w.approved = nil })
	}
	if w.freezes > 0 && !w.frozen {
		person("a freeze begins", func(w *world) { w.frozen, w.freezes = true, w.freezes-1 })
	}
	fair(w.frozen, "the freeze ends", func(w *world) { w.frozen = false })
}

// thaws checks that no freeze forbids what terminates nodes.
func (x *explored) thaws(what string) {
	if x.before.frozen && !x.before.known.drain {
		x.breaks("%s in a freeze", what)
	}
}

// lastSaid reports whether people have approved the removal of the last pool.
func (w *world) lastSaid() bool {
	return slices.ContainsFunc(w.removals, func(r v1alpha1.Removal) bool { return r.LastPool })
}

// undeleted reports whether a pool has a node that is not terminating yet, as the reconcile sees it.
func (x *explored) undeleted(p int) bool {
	for n, c := range x.before.cachedClaims()[:x.before.nodes()] {
		if x.before.of[n] == p && there(c.claim) && !c.deleting {
			return true
		}
	}
	return false
}

// thawsFor is thaws for a pool that has nodes.
func (x *explored) thawsFor(p int, what string) {
	if x.undeleted(p) {
		x.thaws(what)
	}
}

// patient is the number of EC2's responses without an instance that prove its termination.
const patient = 10

// said checks that each removal is allowed by a limit or an Approval, now or earlier.
func (x *explored) said(removals []plan.Candidate) {
	w := &x.before
	if w.known.allows || w.known.drain || w.approved != nil {
		return
	}
	begins := slices.DeleteFunc(slices.Clone(removals), func(c plan.Candidate) bool {
		return c.Held || c.Ref.Kind != render.NodePool || w.released[int(c.Ref.Name[0]-'a')]
	})
	if len(begins) > 1 || len(begins) > 0 && w.noPools() {
		x.breaks("%d pools begin to leave, and nobody has said so", len(begins))
	}
}

// TestExploreWords explores every order of approvals that are given, expire or are reverted, and of freezes that start
// and end, with commits and faults, in small worlds. PLUMBLINE_FULL=1 explores larger worlds.
func TestExploreWords(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	for name, c := range map[string]struct {
		pools           int
		of              []int
		out             int
		commits, faults int8
		word
		states int
		full   bool
	}{
		"two leave, approved":           {2, []int{0, 1}, 2, 0, 0, word{approvals: 2}, 100, false},
		"two leave, a commit, approved": {2, []int{0, 1}, 2, 1, 0, word{approvals: 1}, 500, false},
		"two leave, approved, a fault":  {2, []int{0, 1}, 2, 0, 1, word{approvals: 1}, 1_000, true},
		"a freeze":                      {2, []int{0, 0, 1}, 1, 1, 0, word{freezes: 2}, 500, false},
		"a freeze and a fault":          {1, []int{0, 0}, 1, 0, 1, word{freezes: 1}, 1_000, false},
		"a freeze, a commit, a fault":   {2, []int{0, 0, 1}, 1, 1, 1, word{freezes: 1}, 10_000, true},
		"an approval and a freeze":      {2, []int{0, 1}, 2, 0, 0, word{approvals: 1, freezes: 1}, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, full := os.LookupEnv("PLUMBLINE_FULL"); c.full && !full {
				t.Skip("takes minutes: explored with PLUMBLINE_FULL=1")
			}
			s, began := newShelf(t), time.Now()
			var launched []int
			for n := range c.of {
				launched = append(launched, n)
			}
			w := newWorld(s, &setting{pools: c.pools + 1, spare: true, of: c.of, removal: paced(intstr.FromInt32(1), 30*time.Second)}, launched...)
			w.commits, w.faults, w.word = c.commits, c.faults, c.word
			for p := range c.out {
				w.git[p] = false
			}
			e := explore(t, s, w)
			t.Logf("%d states, %d steps, %d plans, %s", len(e.parents), e.steps, len(s.plans), time.Since(began).Round(time.Millisecond))
			if len(e.parents) < c.states {
				t.Errorf("%d states, and there were at least %d: is something not explored any more?", len(e.parents), c.states)
			}
		})
	}
}

// takesPods reports whether a pool in Git could take the pods of others, as the reconcile sees it, or none needs to.
func (x *explored) takesPods() bool {
	if x.before.known.drain || (x.before.known.allows || x.before.lastSaid() || x.before.approved != nil) && x.before.noPools() {
		return true
	}
	for p, seen := range x.before.cachedPools()[:mostPools] {
		if x.before.git[p] && seen != nowhere && x.shelf.forms[seen].grows {
			return true
		}
	}
	return false
}
