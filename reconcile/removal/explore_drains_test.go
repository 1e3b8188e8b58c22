package removal

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// In addition to the invariants of removals, these are checked if all nodes are drained and the definitions stay:
//
//   - A node is terminated, and growth stopped, without a commit only while the NodeSync is drained, by a removal
//     that an earlier reconcile has recorded, and while the controller leads and the account is verified: mayStop,
//     mayEnd.
//   - No definition is deleted, written or created: mayDelete, mayWriteDrained. A pool that lost a node does not grow
//     again: mayWriteDrained.
//   - A pool is Drained only if no NodeClaim of it is left and no instance according to EC2: drained. It stays so,
//     without growth and with its label: restsDrained.
//   - After a drain is reverted, a node of a pool in Git is terminated only by what was started before: mayEnd,
//     mayReplace. The pool gets its limits, its budgets and its template back: rests.
//   - A drain does not bypass the guard: an entry that a commit removes meanwhile, or has removed before and is held,
//     is deleted only once the guard allows it: weighed.

// spec is the spec of a NodeSync.
type spec struct {
	// allows reports whether the guard allows the removal of every pool. drain reports whether all nodes are drained.
	allows, drain bool
}

// nodeSync returns the NodeSync as it is in the API server or the cache.
func (w *world) nodeSync(cached bool) *v1alpha1.NodeSync {
	says := w.spec
	if cached {
		says = w.known
	}
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod", UID: "11"}}
	sync.Generation = int64(1 + bit(says.allows) + 2*bit(says.drain))
	sync.Spec.Removal, sync.Spec.Drain = w.removal, says.drain
	if says.allows {
		sync.Spec.Guard = v1alpha1.Guard{MaxRemovedPools: ptr.To(int32(mostPools)), AllowLastPool: true}
	}
	sync.Status.Removals, sync.Status.RecentRemovals = slices.Clone(w.removals), slices.Clone(w.recent)
	sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Namespace: controller}
	return sync
}

// drains makes a person drain all nodes, or revert that.
func drains(w *world, person func(what string, do func(*world))) {
	switch {
	case w.drain:
		person("a person takes the drain back", func(w *world) { w.drain = false })
	case w.drains > 0:
		person("a person has the nodes drained", func(w *world) { w.drain, w.drains = true, w.drains-1 })
	}
}

// restsDrained reports whether no node is left, and each pool stays without growth and is recorded as drained.
func (s *shelf) restsDrained(w *world) bool {
	for p := range w.setting.pools {
		if s.remains(w, p) {
			return false
		}
		if w.pools[p] == nowhere {
			continue
		}
		f := s.forms[w.pools[p]]
		if r := removalOf(w.removals, f.object.GetUID()); r == nil || f.grows || !f.labelled {
			return false
		}
	}
	return !slices.ContainsFunc(w.removals, func(r v1alpha1.Removal) bool { return !r.Drained() })
}

// wants reports whether a pool is in Git and its nodes should stay.
func (x *explored) wants(p int) bool { return x.before.git[p] && !x.before.known.drain }

// takesBack reports whether a reconcile may end the removal of an existing entry: it is in Git, or only its nodes are
// drained.
func (x *explored) takesBack(p int) bool { return x.wants(p) || x.before.known.drain && p == ownClass }

// released returns the entries that the guard has allowed to remove, once the status is written.
func (x *explored) released(w *world) (all [mostPools + 1]bool) {
	for _, r := range w.removals {
		p := int(r.Name[0] - 'a')
		all[p] = !x.held[p] && (w.released[p] || x.lets[p])
	}
	return all
}

// weighed checks that the guard has allowed a removal that is not part of a drain, in this reconcile or an earlier one.
func (x *explored) weighed(p int, what string) {
	if !x.before.known.drain && !x.before.released[p] && !x.lets[p] {
		x.breaks("%s, and the guard has not let it go", what)
	}
}

// mayWriteDrained checks that a drained pool does not change except for its growth, and that this is not restored once
// a node was terminated.
func (x *explored) mayWriteDrained(p, number int, act bool) {
	if !x.before.known.drain {
		return
	}
	if !act {
		x.breaks("%s is applied, and it is drained", objectName(p))
		return
	}
	_, r := x.openBefore(p)
	if x.shelf.forms[number].grows && (r == nil || r.Phase != v1alpha1.RemovalHeld && r.Phase != v1alpha1.RemovalPacing) {
		x.breaks("%s may grow again, and it is drained", objectName(p))
	}
}

// drained checks that no node is left of pools that are reported as drained.
func (x *explored) drained() {
	for _, r := range x.world.removals {
		before := removalOf(x.before.removals, r.UID)
		if !r.Drained() || before != nil && before.Drained() {
			continue
		}
		what := r.Kind + "/" + r.Name + " is drained"
		switch {
		case !x.before.known.drain:
			x.breaks("%s, and nobody has asked for that", what)
		case !x.asked || !x.before.verified || !x.before.answers:
			x.breaks("%s, and EC2 was not asked, or has not answered", what)
		}
		x.nothingOf(int(r.Name[0]-'a'), r.UID, what)
	}
}
