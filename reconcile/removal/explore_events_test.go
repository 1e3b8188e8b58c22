package removal

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// event is something that may happen in a world, apart from a reconcile.
type event struct {
	what string
	do   func(*world)
	// fair reports whether it is bound to happen sooner or later; if not, it is a fault or a commit.
	fair bool
}

// events returns those that may happen in a world.
func (s *shelf) events(w *world) []event {
	var all []event
	fair := func(possible bool, what string, do func(*world)) {
		if possible {
			all = append(all, event{what, do, true})
		}
	}
	fault := func(possible bool, what string, do func(*world)) {
		if possible && w.faults > 0 {
			all = append(all, event{what, func(w *world) { do(w); w.faults-- }, false})
		}
	}
	s.people(w, fault, func(what string, do func(*world)) {
		if w.commits > 0 {
			all = append(all, event{what, func(w *world) { do(w); w.commits-- }, false})
		}
	})
	drains(w, func(what string, do func(*world)) { all = append(all, event{what, do, false}) })
	s.words(w, fair, func(what string, do func(*world)) { all = append(all, event{what, do, false}) })
	gates(w, fair, fault)
	caches(w, fair, fault)
	s.clock(w, fair)
	for n := range w.of {
		s.node(w, n, fair, fault)
	}
	return all
}

type may func(possible bool, what string, do func(*world))

// toggle removes an entry from Git, or adds it again.
func (w *world) toggle(p int) {
	w.git[p] = !w.git[p]
	if p == 0 && w.classLeaves {
		w.git[ownClass] = w.git[0]
	}
}

// people commit, release what is held, and change the cluster by hand.
func (s *shelf) people(w *world, fault may, commit func(string, func(*world))) {
	last := w.setting.pools
	if w.spare {
		last--
	}
	for p := range last {
		what := "a commit takes NodePool/" + poolName(p) + " out of Git"
		if !w.git[p] {
			what = "a commit has NodePool/" + poolName(p) + " again"
		}
		commit(what, func(w *world) { w.toggle(p) })
		for q := range last {
			if w.moves && w.git[p] && !w.git[q] {
				commit("a commit renames NodePool/"+poolName(p)+" to NodePool/"+poolName(q), func(w *world) {
					w.toggle(p)
					w.toggle(q)
				})
			}
		}
		if w.pools[p] == nowhere {
			continue
		}
		// A removal that is missing in the status is found with the record of applied objects.
		open := removalOf(w.removals, s.forms[w.pools[p]].object.GetUID()) != nil
		fault((!w.git[p] || w.drain) && open, "a person deletes NodePool/"+poolName(p), func(w *world) { w.pools[p] = nowhere })
		if !s.forms[w.pools[p]].grows {
			fault(true, "a person gives NodePool/"+poolName(p)+" its limits back", func(w *world) { w.pools[p] = s.edited(w.pools[p]) })
		}
	}
	fault(true, map[bool]string{false: "the guard lets all go", true: "the guard lets one go"}[w.allows], func(w *world) { w.allows = !w.allows })
	shown := !slices.ContainsFunc(w.slots[:], func(s slot) bool { return s.hidden })
	fault(shown && len(w.record) > 0, "a person deletes the record", func(w *world) {
		w.record, w.lost = map[string]string{}, true
		for n := range w.slots {
			w.slots[n].ended, w.slots[n].noted = false, false
		}
	})
}

// gates are what must be open for a removal to proceed.
func gates(w *world, fair, fault may) {
	fault(w.lease, "the controller's leader ends", func(w *world) { w.lease = false })
	fault(w.verified, "the account cannot be verified", func(w *world) { w.verified = false })
	fault(w.answers, "EC2 answers no more", func(w *world) { w.answers = false })
	fair(!w.lease, "a pod of the controller leads", leads)
	fair(w.ready != w.lease, "the controller's Deployment tells", func(w *world) { w.ready = w.lease })
	fair(!w.verified, "the account is verified", func(w *world) { w.verified = true })
	fair(!w.answers, "EC2 answers again", func(w *world) { w.answers = true })
}

// caches may lag independently of each other, and catch up.
func caches(w *world, fair, fault may) {
	fault(w.latePools == nil, "the cache of NodePools lags", func(w *world) { pools := w.pools; w.latePools = &pools })
	fault(w.lateClaims == nil, "the cache of NodeClaims lags", func(w *world) { w.lateClaims = w.claimsNow() })
	fair(w.latePools != nil, "the cache of NodePools catches up", func(w *world) { w.latePools = nil })
	fair(w.lateClaims != nil, "the cache of NodeClaims catches up", func(w *world) { w.lateClaims = nil })
	fair(w.spec != w.known, "the cache of NodeSyncs catches up", func(w *world) { w.known = w.spec })
}

// clock lets time pass: the grace period of removals expires, and instances have been absent from EC2's responses for
// long enough.
func (s *shelf) clock(w *world, fair may) {
	young := slices.ContainsFunc(w.removals, func(r v1alpha1.Removal) bool { return r.RecordedAt.Time.Equal(exploredNow) })
	fair(young, "the grace is over", func(w *world) {
		w.removals = slices.Clone(w.removals)
		for i := range w.removals {
			w.removals[i].RecordedAt = metav1.NewTime(exploredNow.Add(-long))
		}
	})
	s.idleness(w, fair)
	for n := range w.of {
		id := providerID(n)
		a, lacking := w.absent[id]
		fair(lacking && w.slots[n].instance == forgotten && a.Answers < patient-1, "EC2's answers have lacked "+nodeName(n)+"'s instance for long", func(w *world) {
			w.absent = maps.Clone(w.absent)
			w.absent[id] = Absence{Since: exploredNow.Add(-long), Answers: patient - 1}
		})
	}
}

// node is what Karpenter, AWS and a person do to one node.
func (s *shelf) node(w *world, n int, fair, fault may) {
	is, p, name := w.slots[n], w.of[n], nodeName(n)
	pool := w.pools[p]
	on := func(do func(*slot)) func(*world) {
		return func(w *world) { do(&w.slots[n]) }
	}
	karpenter := func(possible bool, what string, do func(*slot)) {
		fair(possible && w.lease, "Karpenter "+what+" "+name, on(do))
	}
	if pool != nowhere && s.forms[pool].grows && (p != 0 || w.pools[ownClass] != nowhere) {
		by := int8(s.forms[pool].generation)
		karpenter(is.claim == unmade, "makes", func(s *slot) { s.claim, s.generation = made, by })
	}
	karpenter(is.claim == made && !is.deleting && is.instance == unlaunched, "launches", func(s *slot) { s.instance, s.hidden = running, true })
	karpenter(is.claim == made && is.instance == running, "names the instance of", func(s *slot) { s.claim = named })
	karpenter(there(is.claim) && is.deleting && is.instance == running, "drains", func(s *slot) {
		s.pending, s.instance = s.claim == named && !s.placed, shuttingDown
	})
	s.replacing(w, n, fair, fault)
	ended := is.instance == unlaunched || is.instance == terminated || is.instance == forgotten
	karpenter(there(is.claim) && is.deleting && ended, "lets go", func(s *slot) { s.claim, s.deleting = collected, false })
	karpenter(is.claim == collected && is.instance == running, "collects the instance of", func(s *slot) { s.instance = shuttingDown })
	abandoned := pool == nowhere || s.forms[pool].generation != int(is.generation)
	fair(there(is.claim) && !is.deleting && abandoned, "the garbage collector ends "+name, on(func(s *slot) { s.deleting = true }))
	fair(is.hidden && alive(is.instance), "EC2 shows the instance of "+name, on(func(s *slot) { s.hidden = false }))
	fair(is.instance == shuttingDown, "EC2 terminates the instance of "+name, on(func(s *slot) { s.instance, s.hidden, s.lags = terminated, false, false }))
	fair(is.lags, "EC2's answers are up to date of "+name, on(func(s *slot) { s.lags = false }))
	fair(is.pending, "the pod from "+name+" runs elsewhere", on(func(s *slot) { s.pending = false }))

	fault(alive(is.instance) && !is.hidden && recorded(w.record, n), "EC2's answers lack the instance of "+name, on(func(s *slot) { s.hidden = true }))
	fault(is.instance == terminated, "EC2 lists the instance of "+name+" no more", on(func(s *slot) { s.instance, s.lags = forgotten, false }))
	fault((is.instance == shuttingDown || is.instance == terminated) && !is.hidden && !is.lags, "EC2's next answer lags on "+name, on(func(s *slot) { s.lags = true }))
	fault(is.claim == named && !is.deleting, "a person, or Karpenter, ends "+name, on(func(s *slot) { s.deleting = true }))
	fault(is.claim == named && !is.hidden && alive(is.instance), "a person strips the finalizer of "+name, on(func(s *slot) { s.claim, s.deleting = collected, false }))
}

// leavesStill reports whether a NodeClaim exists.
func (w *world) leavesStill(uid types.UID) bool {
	for n, s := range w.slots {
		if types.UID(nodeName(n)) == uid {
			return there(s.claim)
		}
	}
	return false
}
