package removal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// The following invariants of manifests/SPEC.md ("How a NodePool leaves"), ARCHITECTURE.md and docs/decisions are
// checked in every world:
//
//   - While Git contains a node's pool, the node is not terminated, and the pool's growth is not stopped and the pool
//     not deleted: mayEnd, mayStop, mayDelete.
//   - Write-ahead: before a reconcile stops, terminates or deletes something, an earlier reconcile has recorded it,
//     and each terminated instance, in the status and in the record (mayStop, mayEnd, mayDelete). A reconcile writes
//     its own records before it terminates anything (wrote).
//   - A removal starts after its grace period: mayStop, mayEnd.
//   - At most maxUnavailable NodeClaims of all removals terminate at a time, including those of reverted removals:
//     mayEnd.
//   - A Paced removal does not itself terminate a node that Karpenter can replace, so that its pods can run elsewhere
//     before it drains, and lets Karpenter replace what it may terminate itself: mayEnd, mayReplace.
//   - The pods of nodes that a removal has terminated run before more are terminated, even if that removal is over or
//     reverted: mayEnd.
//   - Growth is restored with the previous limits: writePool.
//   - NodeClaims are terminated only while the controller leads, the account is verified, and a pool in Git could
//     take the pods: mayEnd.
//   - If the guard holds a pool, its growth is not stopped, its nodes are not terminated, and it is not deleted:
//     mayStop, mayEnd, mayDelete.
//   - The pool is deleted last: when no NodeClaim is left and EC2, queried in the same reconcile, has reported every
//     instance as terminated: mayDelete, nothingOf. The removal and its record end in the same way: ended. Responses
//     that fail, are stale, or do not contain running instances prove nothing.
//   - A class is deleted after every pool and NodeClaim that references it: mayDeleteClass.
//   - Nothing is forced: no finalizer is written, and no object except definitions and the record (writePool,
//     writeRecord); deletions have a UID and a resourceVersion, and conflict as in an API server (Delete).
//   - The lease is checked before each write that terminates something, and the NodeSync's spec past the cache:
//     checked.
//   - A revert restores the pool with its label and the limits in Git; nothing is left in the cluster, in EC2 or in
//     the record. Whatever has failed, lagged or been killed before, the events that are bound to happen lead there:
//     rests, mustRest, comeToRest.

// checked checks that the lease was checked before a write that terminates or stops something, and that the spec of
// this reconcile was still the NodeSync's when it started.
func (x *explored) checked(what string) {
	if x.before.spec != x.before.known {
		x.breaks("%s by a spec that is not the NodeSync's any more", what)
	}
	if x.asks == 0 {
		x.breaks("%s, and nobody has looked whether this is still the leader", what)
	}
	x.asks--
}

// openBefore returns pool p's object and removal from earlier reconciles: a reconcile may delete only what it has not
// recorded itself.
func (x *explored) openBefore(p int) (uid types.UID, r *v1alpha1.Removal) {
	if x.world.pools[p] == nowhere {
		return "", nil
	}
	uid = x.shelf.forms[x.world.pools[p]].object.GetUID()
	return uid, removalOf(x.before.removals, uid)
}

// mayStop checks that the growth of a pool may be stopped: its removal is recorded, and has started or may start, and
// Git contains no entry for it.
func (x *explored) mayStop(p int) {
	uid, r := x.openBefore(p)
	switch {
	case x.wants(p):
		x.breaks("the growth of NodePool/%s is stopped, and Git has it", poolName(p))
	case r == nil || x.before.record[string(uid)] == "":
		x.breaks("the growth of NodePool/%s is stopped before its removal is recorded", poolName(p))
	case r.Phase == v1alpha1.RemovalPacing && !x.graceOver(r):
		x.breaks("the growth of NodePool/%s is stopped within its grace", poolName(p))
	case x.held[p]:
		x.breaks("the growth of NodePool/%s is stopped, and its removal is held", poolName(p))
	}
	what := fmt.Sprintf("the growth of NodePool/%s is stopped", poolName(p))
	x.weighed(p, what)
	x.thawsFor(p, what)
}

func (x *explored) graceOver(r *v1alpha1.Removal) bool {
	return x.before.known.drain || r.RecordedAt.Time.Before(exploredNow) || x.world.removal.Grace != nil && x.world.removal.Grace.Duration == 0
}

// mayEnd checks that a NodeClaim may be terminated.
func (x *explored) mayEnd(n int) {
	p, s := x.world.of[n], x.world.slots[n]
	uid := uidOf(poolName(p), int(s.generation))
	r := removalOf(x.before.removals, uid)
	name := "NodeClaim/" + nodeName(n)
	switch {
	case x.wants(p) && x.world.pools[p] != nowhere && x.shelf.forms[x.world.pools[p]].object.GetUID() == uid:
		x.breaks("%s is ended, and Git has NodePool/%s", name, poolName(p))
	case r == nil:
		x.breaks("%s is ended, and the status had no removal of NodePool/%s", name, poolName(p))
	case x.before.record[string(uid)] == "":
		x.breaks("%s is ended, and the removal of NodePool/%s was not recorded", name, poolName(p))
	case x.lets[p] && x.ownsNow(p, uid) && !slices.ContainsFunc(x.before.recent, func(r v1alpha1.RecentRemoval) bool { return r.UID == uid }):
		x.breaks("%s is ended, and the status had not that NodePool/%s counts for later removals", name, poolName(p))
	case s.claim == named && !strings.Contains(x.before.record[string(uid)], providerID(n)):
		x.breaks("%s is ended, and its provider ID was not recorded by an earlier pass", name)
	case r.Phase == v1alpha1.RemovalPacing && !x.graceOver(r):
		x.breaks("%s is ended within the grace", name)
	case x.held[p] && x.ownsNow(p, uid):
		x.breaks("%s is ended, and the guard holds the removal", name)
	case !x.before.lease:
		x.breaks("%s is ended, and no pod of the controller leads", name)
	case !x.takesPods():
		x.breaks("%s is ended, and no pool could take its pods", name)
	case !x.before.verified:
		x.breaks("%s is ended, and the account is not verified", name)
	}
	if leaving, most := x.leaving()+x.granted(nowhere, nowhere), x.most(); leaving >= most {
		x.breaks("%s is ended while %d are leaving, or may be, and no more than %d may be", name, leaving, most)
	}
	if s.claim == named && x.replaces() && !x.world.stays[n] && x.ownsNow(p, uid) {
		x.breaks("%s is ended, and Karpenter could launch what takes its pods first", name)
	}
	for m, other := range x.before.slots[:x.before.nodes()] {
		if other.pending && other.noted && x.awaitsPods() {
			x.breaks("%s is ended, and the pod from %s does not run yet", name, nodeName(m))
		}
	}
	if x.ownsNow(p, uid) {
		x.weighed(p, name+" is ended")
	}
	x.thaws(name + " is ended")
	x.ends++
	x.checked(name + " is ended")
}

// awaitsPods reports whether the pods of terminated nodes must run elsewhere before more are terminated.
func (x *explored) awaitsPods() bool {
	return !x.before.noPools() && !x.before.known.drain
}

// replaces reports whether Karpenter must first launch the capacity for their pods.
func (x *explored) replaces() bool {
	return x.awaitsPods() && x.world.removal.Strategy != v1alpha1.RemovalAtOnce
}

// mayDelete checks that a pool may be deleted: nothing depends on it, and EC2 has confirmed that.
func (x *explored) mayDelete(p int) {
	uid, r := x.openBefore(p)
	name := objectName(p)
	x.weighed(p, name+" is deleted")
	switch {
	case x.before.known.drain:
		x.breaks("%s is deleted, and only its nodes were to go", name)
	case x.before.git[p]:
		x.breaks("%s is deleted, and Git has it", name)
	case r == nil || x.before.record[string(uid)] == "":
		x.breaks("%s is deleted before its removal is recorded", name)
	case x.held[p]:
		x.breaks("%s is deleted, and the guard holds its removal", name)
	case p == ownClass:
		x.mayDeleteClass(name)
		return
	case !x.asked || !x.before.verified || !x.before.answers:
		x.breaks("%s is deleted, and EC2 was not asked, or has not answered", name)
	}
	x.nothingOf(p, uid, name+" is deleted")
	x.checked(name + " is deleted")
}

// mayDeleteClass checks that nothing references a class that is deleted.
func (x *explored) mayDeleteClass(name string) {
	x.checked(name + " is deleted")
	switch {
	case x.world.pools[0] != nowhere:
		x.breaks("%s is deleted, and %s names it", name, objectName(0))
	case !x.before.lease:
		x.breaks("%s is deleted, and no pod of the controller leads", name)
	case !x.before.verified:
		x.breaks("%s is deleted, and the account is not verified", name)
	}
	for n, s := range x.world.slots[:x.world.nodes()] {
		if x.world.of[n] == 0 && there(s.claim) {
			x.breaks("%s is deleted, and NodeClaim/%s names it", name, nodeName(n))
		}
	}
}

// nothingOf checks that neither a NodeClaim nor an instance is left of a pool.
func (x *explored) nothingOf(p int, uid types.UID, what string) {
	for n, s := range x.world.slots[:x.world.nodes()] {
		if x.world.of[n] != p || uidOf(poolName(p), int(s.generation)) != uid {
			continue
		}
		if there(s.claim) {
			x.breaks("%s, and NodeClaim/%s is there", what, nodeName(n))
		}
		// One that EC2 has reported as shutting down is terminated if it is missing in the response: it never runs
		// again.
		ends := s.instance == shuttingDown && shownEnding(x.before.record, n) && (s.hidden || x.before.pools[p] == nowhere)
		// One that was never noted belongs to the pool in its tags, if a pool has that name again.
		another := x.world.pools[p] != nowhere && x.shelf.forms[x.world.pools[p]].object.GetUID() != uid && !recorded(x.before.record, n)
		if alive(s.instance) && !ends && !another {
			x.breaks("%s, and instance %s is not terminated", what, providerID(n))
		}
	}
}

// recorded reports whether a record contains the instance of a node.
func recorded(record map[string]string, n int) bool {
	for _, text := range record {
		if strings.Contains(text, providerID(n)) {
			return true
		}
	}
	return false
}

// shownEnding reports whether a record contains an instance as one that EC2 has reported as shutting down.
func shownEnding(record map[string]string, n int) bool {
	for _, text := range record {
		_, state, _ := strings.Cut(text, providerID(n)+`":"`)
		if strings.HasPrefix(state, "shutting-down") || strings.HasPrefix(state, "terminated") {
			return true
		}
	}
	return false
}

// leaving returns the number of NodeClaims that were terminating when the reconcile started, because of removals that
// are or were open, and of those that it has terminated. It cannot know what others terminate during the reconcile.
func (x *explored) leaving() int {
	leaving := x.ends
	for i, s := range x.before.slots[:x.before.nodes()] {
		uid := uidOf(poolName(x.before.of[i]), int(s.generation))
		open := removalOf(x.before.removals, uid) != nil && !x.holds[uid]
		if p := x.before.of[i]; there(s.claim) && (s.deleting || s.replacing) && (s.ended || open && !x.before.git[p]) {
			leaving++
		}
	}
	return leaving
}

// most returns how many NodeClaims of all removals may be terminating, given their number when the removals were
// recorded.
func (x *explored) most() int {
	if x.before.known.drain {
		return mostNodes
	}
	recorded := 0
	for _, r := range x.before.removals {
		var entry struct{ NodeClaims int }
		if err := json.Unmarshal([]byte(x.before.record[string(r.UID)]), &entry); err == nil && !x.holds[r.UID] {
			recorded += entry.NodeClaims
		}
	}
	most := *x.world.removal.MaxUnavailable
	if most.Type == intstr.Int {
		return max(1, most.IntValue())
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(most.StrVal, "%"))
	if err != nil {
		x.breaks("removal.maxUnavailable is %s", most.StrVal)
	}
	return max(1, recorded*percent/100)
}

// ended checks that removals that are no longer in the status were reverted or are complete.
func (x *explored) ended() {
	for _, r := range x.before.removals {
		p := int(r.Name[0] - 'a')
		seen := x.before.cachedPools()[p]
		reverted := x.takesBack(p) && seen != nowhere && x.shelf.forms[seen].object.GetUID() == r.UID
		if removalOf(x.world.removals, r.UID) != nil || reverted {
			continue
		}
		what := fmt.Sprintf("the removal of %s is over", objectName(p))
		if x.world.pools[p] != nowhere && x.shelf.forms[x.world.pools[p]].object.GetUID() == r.UID {
			x.breaks("%s, and it is there", what)
		}
		if p == ownClass {
			continue
		}
		if !x.before.verified && x.deletedNow(p) {
			x.breaks("%s, and EC2 could not be asked", what)
		}
		x.nothingOf(p, r.UID, what)
	}
}

func (x *explored) deletedNow(p int) bool {
	return x.before.pools[p] != nowhere && x.world.pools[p] == nowhere
}
