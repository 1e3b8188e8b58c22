package removal

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// Observation is what one reconcile sees of one removal's object.
type Observation struct {
	// Fresh reports whether the object, and what hangs on it, was read past the cache
	// in this reconcile.
	Fresh bool
	// Recorded reports whether the removal stands in the NodeSync's status and in its
	// record, both read back past the cache, so written by an earlier reconcile.
	Recorded bool
	// Noted are the provider IDs in the record, with the last state in which EC2
	// has shown each.
	Noted map[string]Seen
	// Unaskable are those of them that are not an EC2 instance, sorted: no answer proves
	// that they have ended.
	Unaskable []string
	// Absent are those of them that EC2's answers lack, this reconcile's among them. A
	// restart begins again.
	Absent map[string]Absence

	// GoesTo is the NodeSync that the object goes to, or has gone to; empty if it
	// stays ours.
	GoesTo string
	// Exists reports whether an object of this name has the removal's UID.
	Exists          bool
	ResourceVersion string
	// Terminating reports whether it has a deletionTimestamp, and Finalizers are those that it waits for then.
	Terminating bool
	Finalizers  []string
	// Stays reports whether only the pool's nodes are to go.
	Stays bool
	// Static reports whether the pool has a fixed number of replicas.
	Static bool
	// GrowthStopped reports whether the pool makes no new node: its cpu limit is 0,
	// or its replicas are.
	GrowthStopped bool
	// GrowthWithheld reports whether it would, had this removal not stopped it, and Scaled that a static pool had more
	// replicas before this removal.
	GrowthWithheld, Scaled bool
	// Replacing is how far Karpenter replaces the pool's nodes for this removal; nil if it does not.
	Replacing *Replacing
	// Paced reports whether its disruption budgets are those by which Karpenter replaces nodes at the removal's pace.
	Paced bool
	// Closed says which disruption budget of the pool allows no replacement now; empty if none is
	// in the way. Crowded reports that there is no place for one more budget, or too little for its own in the record.
	Closed  string
	Crowded bool
	// Budgets are those that the record lacks and that a replacement would overwrite. Full names another removal whose
	// budgets take the room that they need there; empty if there is enough.
	Budgets []any
	Full    string
	// Replicas are those of a static pool.
	Replicas int
	// NodeClaims are those of the pool.
	NodeClaims []Claim
	// ReferencedBy are the NodePools and NodeClaims that name the class, of any owner,
	// as kind/name, NodePools first.
	ReferencedBy []string
	// Unremoved says of the first of them that is not removed, though it has left Git, why
	// that is and what to do; empty if there is none.
	Unremoved string
	// Waits is the reason for which the removal of a NodePool that names the class waits for its time, its
	// turn or a person; empty if none does.
	Waits string

	// Hold is a person's word that is needed first; nil if none is.
	Hold *Hold
	// Queued is for which removals this one waits, by the guard's limits; empty if it does not.
	Queued string
	// Grace is open once the removal was recorded long enough ago.
	Grace Gate
	// Controller is open while Karpenter's controller has a ready replica.
	Controller Gate
	// Cloud is open while EC2 is known to be the right account.
	Cloud Gate
	// Arrivals is open once every arrival and change of the revision is applied
	// and each new NodePool is Ready.
	Arrivals Gate
	// Successor is open while a NodePool that stays could take the pods.
	Successor Gate
	// Frozen is why no node may be removed now; empty if it may.
	Frozen string
	// EndsFirst reports whether Karpenter ends nodes in reserved capacity before their replacements are there.
	EndsFirst bool
	// Turn is how many NodeClaims may be ended in this reconcile.
	Turn Turn
	// Leader is open while a pod of Karpenter's controller holds its lease; nil
	// if that was not asked in this reconcile.
	Leader *Gate
	// Pods are those of the nodes that are ended next, and of those that were; nil
	// if they were not read in this reconcile.
	Pods *Pods
	// Evicted are workloads that the record lacks, with pods on nodes that another than the
	// removal ends meanwhile.
	Evicted []Workload

	// EC2 is its answer in this reconcile; nil if it has none.
	EC2 *Answer
	// Silence says why EC2, asked in this reconcile, gave no answer.
	Silence string
	// Shown are instances that EC2 has shown beside its Silence. That is no answer:
	// an instance that is not among them may run.
	Shown []Instance
}

// Hold is why a removal waits for a person's word.
type Hold struct {
	Reason, Message string
	// Reasons are all reasons, the most severe first, if there is more than one.
	Reasons []string
}

// Gate is something that has to be so before anything is ended.
type Gate struct {
	Open bool
	// Message says, where the gate is closed, what it waits for. It does not
	// change by itself.
	Message string
	// Room is, of an open gate of the successor, what the NodePools that could take pods have
	// left of their limits; nil if one of them has none.
	Room *Room
}

// Claim is one NodeClaim of a pool.
type Claim struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	// ProviderID is empty until it has an instance.
	ProviderID string
	Node       string
	// Deleting is since when it has a deletionTimestamp; zero if it has none.
	Deleting time.Time
	// Replacing is since when Karpenter replaces it: it is tainted, and ended once its pods have a
	// place; zero if it does not, or has ended it.
	Replacing time.Time
	// Drifted is since when Karpenter finds that it does not match its pool's template; zero if it does.
	Drifted time.Time
	// Unhashed reports whether it lacks the hash by which Karpenter finds that it has drifted.
	Unhashed bool
	// Initialized reports whether Karpenter does not report that its node is not initialized.
	Initialized bool
	// Reserved reports whether it is in reserved capacity.
	Reserved bool
	// Ending reports whether EC2 has taken its termination.
	Ending bool
	// Drained is since when it is drained and its volumes are detached, while EC2
	// has not taken its termination; zero if that is not so.
	Drained time.Time
	// Waits are the messages of its conditions that tell what it waits for.
	Waits []string
	// Finalizers are those that it has while it is terminating.
	Finalizers []string
}

// Answer is what EC2 says of the instances of one removal: those with the
// pool's tags and those noted.
type Answer struct{ Instances []Instance }

// Instance is one instance as EC2 has it.
type Instance struct {
	ProviderID string
	State      string
	// Gone reports whether EC2 has ended it.
	Gone bool
}

// unended returns the instances that are not proven ended: those that EC2 shows
// alive, and those noted that it does not show. Of the latter, one that was seen
// ending has ended.
func (o Observation) unended(now time.Time) []Instance {
	if o.EC2 == nil {
		return nil
	}
	var left []Instance
	for _, id := range o.Unaskable {
		left = append(left, Instance{ProviderID: id, State: unasked})
	}
	shown := map[string]bool{}
	for _, i := range o.EC2.Instances {
		shown[i.ProviderID] = true
		if !i.Gone {
			left = append(left, i)
		}
	}
	for id, seen := range o.Noted {
		if !shown[id] && !seen.ending() && !o.Absent[id].proves(now) && !slices.Contains(o.Unaskable, id) {
			left = append(left, Instance{ProviderID: id, State: unlisted})
		}
	}
	slices.SortFunc(left, func(a, b Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	return left
}

// The states of instances that an answer lacks: for no reason, and because EC2
// cannot be asked about them.
const (
	unlisted = "not found in EC2"
	unasked  = "not an EC2 instance"
)

// silence says why there is no answer, and what is known all the same.
func (o Observation) silence() string {
	if len(o.Shown) == 0 {
		return o.Silence
	}
	words := make([]string, 0, len(o.Shown))
	for _, i := range o.Shown {
		words = append(words, i.ProviderID+" ("+i.State+")")
	}
	return o.Silence + "; queried by ID, EC2 returns " + finding.First(words)
}

// news returns what the record lacks: provider IDs that it has not, and what EC2
// has shown of an instance for the first time. An instance that nobody noted and
// that is ending anyhow is no news.
func (o Observation) news() (fresh []string, seen []Instance) {
	for _, c := range o.NodeClaims {
		if _, noted := o.Noted[c.ProviderID]; !noted && c.ProviderID != "" {
			fresh = append(fresh, c.ProviderID)
		}
	}
	slices.Sort(fresh)
	fresh = slices.Compact(fresh)
	if o.EC2 == nil {
		return fresh, nil
	}
	for _, i := range o.EC2.Instances {
		before, noted := o.Noted[i.ProviderID]
		now := Seen(i.State)
		if now.rank() > before.rank() && (noted || !now.ending() || slices.Contains(fresh, i.ProviderID)) {
			seen = append(seen, i)
		}
	}
	slices.SortFunc(seen, func(a, b Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	return fresh, seen
}

// unseen reports whether the record has an instance that EC2 has not shown yet.
func (o Observation) unseen() bool {
	for id, seen := range o.Noted {
		if seen == "" && !slices.Contains(o.Unaskable, id) {
			return true
		}
	}
	return false
}
