package removal

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// seenClaim is one NodeClaim in the API server or a cache. ending reports whether EC2 has accepted its termination.
type seenClaim struct {
	claim                       uint8
	deleting, replacing, ending bool
	generation                  int8
}

func (s slot) seen() seenClaim {
	ending := s.deleting && s.instance != running && s.instance != unlaunched
	return seenClaim{s.claim, s.deleting, s.replacing, ending, s.generation}
}

func (c seenClaim) version() string { return fmt.Sprint(c.claim, c.deleting, c.replacing, c.ending) }

func (c seenClaim) conditions() (all []status.Condition) {
	is := func(kind string) {
		all = append(all, status.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: string(karpv1.DisruptionReasonDrifted), LastTransitionTime: metav1.NewTime(exploredNow)})
	}
	if c.replacing {
		is(karpv1.ConditionTypeDisruptionReason)
	}
	if c.ending {
		is(karpv1.ConditionTypeInstanceTerminating)
	}
	return all
}

// replacesBy returns whether all nodes of a pool have drifted, and how many Karpenter may replace at a time.
func replacesBy(pool *unstructured.Unstructured) (replaces bool, budget int) {
	_, replaces, _ = unstructured.NestedString(pool.Object, "spec", "template", "metadata", "labels", v1alpha1.LeavingLabel)
	for _, one := range budgetsOf(pool) {
		fields, _ := one.(map[string]any)
		_, scheduled := fields["schedule"]
		if n, err := strconv.Atoi(fmt.Sprint(fields["nodes"])); err == nil && !scheduled && reflect.DeepEqual(fields["reasons"], []any{"Drifted"}) {
			budget = n
		}
	}
	return replaces, budget
}

func budgetsOf(pool *unstructured.Unstructured) []any {
	budgets, _, _ := unstructured.NestedSlice(pool.Object, "spec", "disruption", "budgets")
	return budgets
}

func templateOf(pool *unstructured.Unstructured) map[string]any {
	template, _, _ := unstructured.NestedMap(pool.Object, "spec", "template")
	return template
}

// disrupting returns how many nodes of a pool Karpenter counts against its budgets.
func (w *world) disrupting(p int) (n int) {
	for i, s := range w.slots[:w.nodes()] {
		if w.of[i] == p && there(s.claim) && (s.deleting || s.replacing) && s.instance == running {
			n++
		}
	}
	return n
}

// mayReplaceNode reports whether Karpenter may start to replace a node: the pool's budgets allow it, and its pod could
// run in another pool.
func (s *shelf) mayReplaceNode(w *world, n int) bool {
	is, pool := w.slots[n], w.pools[w.of[n]]
	if !w.lease || pool == nowhere || is.claim != named || is.deleting || is.replacing || is.instance != running || w.stays[n] {
		return false
	}
	f := s.forms[pool]
	grows := func(number int) bool { return number != nowhere && number != pool && s.forms[number].grows }
	return f.replaces && f.generation == int(is.generation) && w.disrupting(w.of[n]) < f.budget && slices.ContainsFunc(w.pools[:mostPools], grows)
}

// replacing is what Karpenter does to a drifted node: it taints the node, launches and initializes one for its pod in
// another pool, and then terminates the node.
func (s *shelf) replacing(w *world, n int, fair, fault may) {
	is, name := w.slots[n], nodeName(n)
	fair(s.mayReplaceNode(w, n), "Karpenter begins to replace "+name, func(w *world) {
		if s.mayReplaceNode(w, n) {
			w.slots[n].replacing = true
		}
	})
	fair(is.replacing && w.lease, "the replacement of "+name+" is initialized, and Karpenter ends it", func(w *world) {
		if w.slots[n].replacing {
			w.slots[n].replacing, w.slots[n].deleting, w.slots[n].placed = false, there(w.slots[n].claim), true
		}
	})
	fault(is.replacing && w.lease, "the replacement of "+name+" does not come, and Karpenter gives up", func(w *world) { w.slots[n].replacing = false })
}

// leads makes a pod of the controller lead: it does not know what the previous one had started to replace.
func leads(w *world) {
	w.lease = true
	for n := range w.slots {
		w.slots[n].replacing = false
	}
}

// idleness means that Karpenter replaces nothing for a while, although it may.
func (s *shelf) idleness(w *world, fair may) {
	for i := range w.removals {
		r := &w.removals[i]
		p := int(r.Name[0] - 'a')
		may := r.Phase == v1alpha1.RemovalDraining && p < mostPools && w.pools[p] != nowhere && s.forms[w.pools[p]].replaces && w.disrupting(p) == 0
		fair(may && r.LastProgress.Time.Equal(exploredNow), "nothing of "+r.Name+" moves for a while", func(w *world) {
			w.removals = slices.Clone(w.removals)
			if i < len(w.removals) {
				w.removals[i].LastProgress = metav1.NewTime(exploredNow.Add(-long))
			}
		})
	}
}

// granted returns how many nodes Karpenter may start to replace at any time, given the state when the reconcile
// started, or another form of one pool.
func (x *explored) granted(of, form int) (n int) {
	for p, number := range x.before.pools[:mostPools] {
		now := x.world.pools[p]
		if p == of {
			number, now = form, form
		}
		// Karpenter does not start what a revert has stopped.
		if number == nowhere || now == nowhere || !x.shelf.forms[number].replaces || !x.shelf.forms[now].replaces {
			continue
		}
		untouched := 0
		for i, s := range x.before.slots[:x.before.nodes()] {
			if x.before.of[i] == p && there(s.claim) && !s.deleting && !s.replacing {
				untouched++
			}
		}
		n += max(0, min(x.shelf.forms[number].budget-x.before.disrupting(p), untouched))
	}
	return n
}

// ownsNow reports whether a pool with this UID exists.
func (x *explored) ownsNow(p int, uid types.UID) bool {
	return x.before.pools[p] != nowhere && x.shelf.forms[x.before.pools[p]].object.GetUID() == uid
}

// mayReplace checks that Karpenter may replace nodes of a pool with its new form, like mayEnd.
func (x *explored) mayReplace(p, number int) {
	f := x.shelf.forms[number]
	if !f.replaces || f.budget == 0 {
		return
	}
	uid, r := x.openBefore(p)
	name := "the replacement of nodes of " + objectName(p) + " is begun"
	switch {
	case x.wants(p):
		x.breaks("%s, and Git has it", name)
	case r == nil || x.before.record[string(uid)] == "":
		x.breaks("%s before its removal is recorded", name)
	case r.Phase == v1alpha1.RemovalPacing && !x.graceOver(r):
		x.breaks("%s within the grace", name)
	case x.held[p]:
		x.breaks("%s, and the guard holds the removal", name)
	case f.grows:
		x.breaks("%s, and it grows", name)
	case !x.takesPods():
		x.breaks("%s, and no pool could take its pods", name)
	case !x.before.verified:
		x.breaks("%s, and the account is not verified", name)
	case !x.replaces():
		x.breaks("%s, and it is not Paced", name)
	}
	x.thaws(name)
	if may, most := x.leaving()+x.granted(p, number), x.most(); may > most {
		x.breaks("%s, so that %d may leave, and no more than %d may", name, may, most)
	}
	for m, other := range x.before.slots[:x.before.nodes()] {
		if other.pending && other.noted && x.before.disrupting(p) < f.budget {
			x.breaks("%s, and the pod from %s does not run yet", name, nodeName(m))
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
