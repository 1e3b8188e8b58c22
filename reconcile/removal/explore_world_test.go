package removal

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// The limits of an explored world.
const (
	mostPools = 4
	// ownClass is the index, after the pools, of the EC2NodeClass that only pool a references.
	ownClass  = mostPools
	mostNodes = 8
)

var (
	exploredOwner = plan.OwnerOf(namespace, "prod")
	// exploredNow is the time of every reconcile. The passing of time is an event.
	exploredNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// long is longer than every wait.
const long = 24 * time.Hour

// The states of a node's instance in EC2.
const (
	unlaunched uint8 = iota
	running
	shuttingDown
	terminated
	forgotten // EC2 no longer lists it
)

// The states of a NodeClaim.
const (
	unmade uint8 = iota
	made         // it has no provider ID yet
	named
	collected // it no longer exists
)

// slot is one node: its NodeClaim, its instance, and the pod that ran on it.
type slot struct {
	claim      uint8
	deleting   bool
	generation int8 // of the pool that owns it
	instance   uint8
	// hidden reports whether EC2's responses do not contain it, and lags whether the next one shows it running.
	hidden, lags bool
	// pending reports whether the pod that ran on the node waits for another one.
	pending bool
	// replacing reports whether Karpenter replaces it, and placed whether its pod can run elsewhere when it drains.
	replacing, placed bool
	// ended reports whether a removal has terminated the NodeClaim, and noted whether the owners of the pods that it
	// evicts are recorded.
	ended, noted bool
}

// claims are the NodeClaims in the API server or a cache.
type claims [mostNodes]seenClaim

// setting is the constant part of a world.
type setting struct {
	pools int
	// of is the pool of each node.
	of []int
	// spare is a pool that stays in Git, without a node.
	spare   bool
	removal v1alpha1.RemovalPolicy
	// classLeaves reports whether the class of pool a is removed from Git together with it, and added together with it.
	classLeaves bool
	// moves reports whether commits rename pools.
	moves bool
	// stays reports which nodes have a pod that must not be disrupted.
	stays [mostNodes]bool
}

// world is one state of Git, a cluster, an account and plumbline. It is a value: it is never written through its
// pointers.
type world struct {
	*setting
	// commits and faults are how many more of them are possible.
	commits, faults int8

	git [mostPools + 1]bool
	// spec is the NodeSync's, and known what the cache contains of it; drains are how many more drains may start.
	spec
	known  spec
	drains int8
	word
	// released are the removed entries that the guard has allowed to remove.
	released [mostPools + 1]bool

	pools [mostPools + 1]int // the numbers of their forms
	// generations is how often each was created.
	generations [mostPools + 1]int8
	slots       [mostNodes]slot
	// latePools and lateClaims are the caches of NodePools and of NodeClaims, if they lag.
	latePools  *[mostPools + 1]int
	lateClaims *claims
	// lease reports whether a pod of the controller leads, and ready whether its Deployment reports it as ready.
	lease, ready bool
	verified     bool // the account is verified
	answers      bool // EC2 responds

	// removals and recent are in the status, and record is in the ConfigMap.
	removals []v1alpha1.Removal
	recent   []v1alpha1.RecentRemoval
	record   map[string]string
	// lost reports whether a person has deleted the record, and with it the limits that it contains.
	lost bool
	// A crash loses these.
	absent  map[string]Absence
	evicted map[types.UID]bool
	settled bool
}

// poolName returns the name of a pool; that of the spare one comes last.
func poolName(p int) string { return string(rune('a' + p)) }

func kindOf(p int) string {
	if p == ownClass {
		return render.EC2NodeClass
	}
	return render.NodePool
}

func objectName(p int) string { return kindOf(p) + "/" + poolName(p) }

func (w *world) noPools() bool { return !slices.Contains(w.git[:mostPools], true) }

func nodeName(s int) string   { return fmt.Sprintf("n%d", s) }
func providerID(s int) string { return fmt.Sprintf("aws:///eu-west-1a/i-%017d", s) }
func (w *world) nodes() int   { return len(w.of) }

// revision names the commit by its content: a commit with the same content as an earlier one has the same name.
func (w *world) revision() string {
	var b strings.Builder
	b.WriteString("main@sha1:")
	for p := range w.setting.pools {
		if w.git[p] {
			b.WriteString(poolName(p))
		}
	}
	return b.String()
}

// newWorld returns a world with every pool in Git and in the cluster, and nodes in some slots.
func newWorld(s *shelf, of *setting, launched ...int) world {
	w := world{setting: of, lease: true, ready: true, verified: true, answers: true, record: map[string]string{}}
	for p := range of.pools {
		w.git[p], w.pools[p] = true, s.applied(poolName(p))
	}
	w.git[ownClass], w.pools[ownClass] = true, s.applied(poolName(ownClass))
	for p := of.pools; p < mostPools; p++ {
		w.pools[p] = nowhere
	}
	for _, n := range launched {
		w.slots[n] = slot{claim: named, instance: running}
	}
	return w
}

// claimsNow returns the NodeClaims in the API server.
func (w *world) claimsNow() *claims {
	var c claims
	for n, s := range w.slots {
		c[n] = s.seen()
	}
	return &c
}

func (w *world) cachedClaims() *claims {
	if w.lateClaims != nil {
		return w.lateClaims
	}
	return w.claimsNow()
}

func (w *world) cachedPools() *[mostPools + 1]int {
	if w.latePools != nil {
		return w.latePools
	}
	return &w.pools
}

// there reports whether a NodeClaim exists.
func there(claim uint8) bool { return claim == made || claim == named }

// alive reports whether an instance costs money.
func alive(instance uint8) bool { return instance == running || instance == shuttingDown }

// key is equal for worlds with the same future. It does not include messages, and the times at which a removal counts
// as stalled.
func (w *world) key() string {
	b := make([]byte, 0, 256)
	bits := func(all ...bool) {
		n := byte(0)
		for i, bit := range all {
			if bit {
				n |= 1 << i
			}
		}
		b = append(b, n)
	}
	b = append(b, byte(w.commits), byte(w.faults), byte(w.drains))
	bits(w.git[:]...)
	bits(w.released[:]...)
	bits(w.allows, w.known.allows, w.drain, w.known.drain)
	b = append(b, w.word.key()...)
	bits(w.lease, w.ready, w.verified, w.answers, w.settled, w.lost)
	bits(w.latePools != nil, w.lateClaims != nil)
	for p := range w.setting.pools {
		b = append(b, byte(w.pools[p]), byte(w.cachedPools()[p]), byte(w.generations[p]))
	}
	b = append(b, byte(w.pools[ownClass]), byte(w.cachedPools()[ownClass]), byte(w.generations[ownClass]))
	cached := w.cachedClaims()
	for n := range w.of {
		s := w.slots[n]
		b = append(b, s.claim, byte(s.generation), s.instance, cached[n].claim, byte(cached[n].generation))
		bits(s.replacing, s.placed, cached[n].replacing, cached[n].ending)
		bits(s.deleting, s.hidden, s.lags, s.pending, cached[n].deleting, s.noted && (s.pending || there(s.claim)), s.ended && there(s.claim))
	}
	for _, r := range w.removals {
		b = append(b, r.UID+"|"+types.UID(r.Phase)+"|"+types.UID(r.Revision)+"|"+types.UID(r.Approved)+"|"...)
		bits(r.RecordedAt.Time.Equal(exploredNow), r.LastProgress.Time.Equal(exploredNow), r.Drained())
	}
	for _, r := range w.recent {
		b = append(b, "T"+r.UID...)
		b = append(b, byte(r.Nodes))
	}
	for _, uid := range slices.Sorted(maps.Keys(w.record)) {
		b = append(b, "R"+uid+w.record[uid]...)
	}
	for _, id := range slices.Sorted(maps.Keys(w.absent)) {
		b = append(b, "A"+id...)
		b = append(b, byte(w.absent[id].Answers))
		bits(w.absent[id].Since.Equal(exploredNow))
	}
	for _, uid := range slices.Sorted(maps.Keys(w.evicted)) {
		b = append(b, "E"+uid...)
	}
	return string(b)
}

// still normalizes the times and numbers that a reconcile has written, by which worlds with the same future would
// differ.
func (w *world) still() {
	removals := make([]v1alpha1.Removal, len(w.removals))
	for i, r := range w.removals {
		if !r.RecordedAt.Time.Equal(exploredNow) {
			r.RecordedAt = metav1.NewTime(exploredNow.Add(-long))
		}
		r.Since = metav1.NewTime(exploredNow)
		if !r.LastProgress.Time.Equal(exploredNow) {
			r.LastProgress = metav1.NewTime(exploredNow.Add(-long))
		}
		removals[i] = r
	}
	w.removals = removals
	// A removed pool counts until its removal is over: guard.removalPeriod has passed then.
	w.recent = slices.DeleteFunc(slices.Clone(w.recent), func(r v1alpha1.RecentRemoval) bool { return removalOf(removals, r.UID) == nil })
	absent := map[string]Absence{}
	for id, a := range w.absent {
		if a.Answers > 1 && a.Answers < patient-1 {
			a.Answers = 1
		}
		a.Answers = min(a.Answers, patient)
		absent[id] = a
	}
	w.absent = absent
	for uid := range w.evicted {
		if !w.leavesStill(uid) {
			w.evicted = maps.Clone(w.evicted)
			delete(w.evicted, uid)
		}
	}
}

// calm reports whether nothing prevents plumbline from proceeding, and every cache is up to date.
func (w *world) calm() bool {
	for _, s := range w.slots {
		if s.hidden || s.lags || s.pending {
			return false
		}
	}
	return w.lease && w.ready && w.verified && w.answers && w.latePools == nil && w.lateClaims == nil && w.spec == w.known
}
