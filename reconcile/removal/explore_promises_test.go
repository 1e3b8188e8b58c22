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

// What is checked in every world of manifests/SPEC.md ("How a NodePool leaves"), ARCHITECTURE.md and docs/decisions, and where:
//
//   - No node that Git wants ends, its pool neither stops growing nor goes: mayEnd, mayStop, mayDelete.
//   - Write-ahead: what a reconcile stops, ends or deletes, and each instance that it ends, an earlier reconcile
//     has recorded in the status and in the record (mayStop, mayEnd, mayDelete), and what a reconcile
//     records it writes before it ends anything (wrote).
//   - A removal begins after its grace: mayStop, mayEnd.
//   - No more than maxUnavailable of all removals leave at a time, those of reverted ones included: mayEnd.
//   - A removal that is Paced ends no node itself that Karpenter can replace, so that its pods have a place before
//     it drains, and has Karpenter replace what it might end itself: mayEnd, mayReplace.
//   - The pods of nodes that a removal has ended run before more end, also where that removal is over,
//     or was reverted: mayEnd.
//   - Growth is given back with the limits that there were: writePool.
//   - NodeClaims are ended only while the controller leads, the account is verified, and a pool of
//     Git could take the pods: mayEnd.
//   - What the guard holds neither stops growing, nor ends, nor goes: mayStop, mayEnd, mayDelete.
//   - The pool goes last: when no NodeClaim is left and EC2, asked in that very pass, has shown every
//     instance to have ended: mayDelete, nothingOf. So ends the removal, and its record: ended.
//     Answers that fail, lag, or lack what runs prove nothing.
//   - A class goes after every pool and NodeClaim that names it: mayDeleteClass.
//   - Nothing is forced: no finalizer, and no object but definitions and the record, is written (writePool,
//     writeRecord); deletions bear a UID and a resourceVersion, and conflict as in an API server (Delete).
//   - The lease is checked before each write that ends something, and the NodeSync's spec past the cache: checked.
//   - A revert restores the pool with its label and the limits of Git; nothing stays behind in the
//     cluster, in EC2 or in the record; and whatever has failed, lagged or been killed before, what is
//     bound to happen leads there: rests, mustRest, comeToRest.

// checked checks that the lease was looked at before a write that ends or stops something, and that
// the spec by which it is made was still the NodeSync's as the reconcile began.
func (x *explored) checked(what string) {
	if x.before.spec != x.before.known {
		x.breaks("%s by a spec that is not the NodeSync's any more", what)
	}
	if x.asks == 0 {
		x.breaks("%s, and nobody has looked whether this is still the leader", what)
	}
	x.asks--
}

// Pool p's object and removal, as an earlier reconcile has left them: what a reconcile deletes, it has
// not recorded itself.
func (x *explored) openBefore(p int) (uid types.UID, r *v1alpha1.Removal) {
	if x.world.pools[p] == nowhere {
		return "", nil
	}
	uid = x.shelf.forms[x.world.pools[p]].object.GetUID()
	return uid, removalOf(x.before.removals, uid)
}

// mayStop checks that the growth of a pool may be stopped: its removal is recorded, was begun
// or may begin, and Git has no entry for it.
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

// mayEnd checks that a NodeClaim may be ended.
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

// awaitsPods reports whether the pods of nodes that end have to run elsewhere before more end.
func (x *explored) awaitsPods() bool {
	return !x.before.noPools() && !x.before.known.drain
}

// replaces reports whether Karpenter is to launch what takes their pods first.
func (x *explored) replaces() bool {
	return x.awaitsPods() && x.world.removal.Strategy != v1alpha1.RemovalAtOnce
}

// mayDelete checks that a pool may be deleted: nothing hangs on it, and EC2 has said so.
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

// mayDeleteClass checks that nothing names a class that is deleted.
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
		// One that EC2 has shown ending has ended where its answers lack it: none comes back.
		ends := s.instance == shuttingDown && shownEnding(x.before.record, n) && (s.hidden || x.before.pools[p] == nowhere)
		// One that nobody has noted is the one of its tags, where a pool has that name again.
		another := x.world.pools[p] != nowhere && x.shelf.forms[x.world.pools[p]].object.GetUID() != uid && !recorded(x.before.record, n)
		if alive(s.instance) && !ends && !another {
			x.breaks("%s, and instance %s is not terminated", what, providerID(n))
		}
	}
}

// recorded reports whether a record has the instance of a node.
func recorded(record map[string]string, n int) bool {
	for _, text := range record {
		if strings.Contains(text, providerID(n)) {
			return true
		}
	}
	return false
}

// shownEnding reports whether a record has an instance as one that EC2 has shown ending.
func shownEnding(record map[string]string, n int) bool {
	for _, text := range record {
		_, state, _ := strings.Cut(text, providerID(n)+`":"`)
		if strings.HasPrefix(state, "shutting-down") || strings.HasPrefix(state, "terminated") {
			return true
		}
	}
	return false
}

// leaving are the NodeClaims that were ending as the reconcile began, of removals that are open or by
// one that was, and those that it has ended: what others end in its midst it cannot know.
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

// most is how many NodeClaims of all removals may be ending: of those that there were when they
// were recorded.
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

// ended checks that what stands in the status no more was reverted, or is gone.
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
