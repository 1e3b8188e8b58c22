package removal

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// Observation is the state of one removal's object that one reconcile sees.
type Observation struct {
	// Fresh reports whether the object, and the objects that depend on it, were read past the cache in this reconcile.
	Fresh bool
	// Recorded reports whether the removal is both in the NodeSync's status and in its record, read back past the
	// cache, so an earlier reconcile has written it.
	Recorded bool
	// Noted are the provider IDs in the record, with the last state that EC2 reported for each.
	Noted map[string]Seen
	// Unaskable are those of them that are not EC2 instances, sorted: no response can prove that they are terminated.
	Unaskable []string
	// Absent are those of them that EC2's responses do not contain, including the response in this reconcile. After a
	// restart, counting starts again.
	Absent map[string]Absence

	// NewOwner is the NodeSync to which the object moves or has moved; empty if it stays with this one.
	NewOwner string
	// Exists reports whether an object of this name with the removal's UID exists.
	Exists          bool
	ResourceVersion string
	// Terminating reports whether it has a deletionTimestamp. Finalizers are those that then block the deletion.
	Terminating bool
	Finalizers  []string
	// Stays reports whether only the pool's nodes are removed.
	Stays bool
	// Static reports whether the pool has a fixed number of replicas.
	Static bool
	// GrowthStopped reports whether the pool launches no new nodes: its cpu limit or its replicas are 0.
	GrowthStopped bool
	// GrowthWithheld reports whether it would launch nodes if this removal had not stopped its growth. Scaled reports
	// whether a static pool had more replicas before this removal.
	GrowthWithheld, Scaled bool
	// Replacing is how Karpenter replaces the pool's nodes for this removal; nil if it does not.
	Replacing *Replacing
	// Paced reports whether the pool has the disruption budgets with which Karpenter replaces nodes at the removal's
	// pace.
	Paced bool
	// Closed names the disruption budget of the pool that allows no replacement now; empty if there is none. BudgetsFull
	// reports whether the pool has no space for another budget, or the record has too little space for the pool's own.
	Closed      string
	BudgetsFull bool
	// Budgets are those that a replacement would overwrite and that are missing in the record. Full names another
	// removal whose budgets take up the space that they need there; empty if there is enough.
	Budgets []any
	Full    string
	// Replicas are those of a static pool.
	Replicas int
	// NodeClaims are those of the pool.
	NodeClaims []Claim
	// ReferencedBy are the NodePools and NodeClaims that reference the class, of any owner, as kind/name, NodePools
	// first.
	ReferencedBy []string
	// Unremoved explains why the first of them that was removed from Git is not deleted, and what to do; empty if there
	// is none.
	Unremoved string
	// Waits is the reason for which the removal of a NodePool that references the class waits for its time, its turn or
	// a person; empty if none waits.
	Waits string

	// Hold is why the removal needs an approval; nil if it does not.
	Hold *Hold
	// Queued names the removals for which this one waits because of the guard's limits; empty if it does not.
	Queued string
	// Grace is open once the removal has been recorded for long enough.
	Grace Gate
	// Controller is open while Karpenter's controller has a ready replica.
	Controller Gate
	// Cloud is open while EC2 is known to be in the right account.
	Cloud Gate
	// Arrivals is open once every addition and change of the revision is applied and each new NodePool is Ready.
	Arrivals Gate
	// Successor is open while a NodePool that stays could take the pods.
	Successor Gate
	// Frozen explains why no node may be removed now; empty if nodes may be removed.
	Frozen string
	// TerminatesFirst reports whether Karpenter terminates nodes in reserved capacity before their replacements exist.
	TerminatesFirst bool
	// Turn is how many NodeClaims may be terminated in this reconcile.
	Turn Turn
	// Leader is open while a pod of Karpenter's controller holds its lease; nil if that was not checked in this
	// reconcile.
	Leader *Gate
	// Pods describes the pods of the nodes that are terminated next, and of those that were; nil if they were not read
	// in this reconcile.
	Pods *Pods
	// Evicted are workloads that the record does not contain, with pods on nodes that a client other than the removal is
	// terminating.
	Evicted []Workload

	// EC2 is its response in this reconcile; nil if there is none.
	EC2 *Answer
	// NoResponse explains why EC2, queried in this reconcile, did not respond.
	NoResponse string
	// Shown are instances that EC2 has returned in addition to NoResponse. They are no complete response: other instances
	// may run.
	Shown []Instance
}

// Hold is why a removal needs an approval.
type Hold struct {
	Reason, Message string
	// Reasons are all reasons, the most severe first, if there is more than one.
	Reasons []string
}

// Gate is a condition for terminating anything.
type Gate struct {
	Open bool
	// Message says what a closed gate waits for. It is stable while the cause is the same.
	Message string
	// Room is what is left within the limits of the NodePools that could take pods. It is only set for an open gate of
	// the successor, and nil if one of the NodePools has no limits.
	Room *Room
}

// Claim is one NodeClaim of a pool.
type Claim struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	// ProviderID is empty until the NodeClaim has an instance.
	ProviderID string
	Node       string
	// Deleting is its deletionTimestamp; zero if it has none.
	Deleting time.Time
	// Replacing is since when Karpenter replaces it: it is tainted, and terminated once its pods can run elsewhere. It
	// is zero if Karpenter does not replace it, or has terminated it.
	Replacing time.Time
	// Drifted is since when Karpenter reports that it does not match its pool's template; zero if it matches.
	Drifted time.Time
	// Unhashed reports whether it has no hash, which Karpenter needs to detect drift.
	Unhashed bool
	// Initialized is false if Karpenter reports that its node is not initialized.
	Initialized bool
	// Reserved reports whether it is in reserved capacity.
	Reserved bool
	// TerminationAccepted reports whether EC2 has accepted its termination.
	TerminationAccepted bool
	// Drained is since when it is drained and its volumes are detached while EC2 has not accepted its termination;
	// otherwise zero.
	Drained time.Time
	// Deadline is when its terminationGracePeriod is over; zero if it has none, or is not being deleted.
	Deadline time.Time
	// Waits are the messages of its conditions that say what it waits for.
	Waits []string
	// Finalizers are those that it has while it is terminating.
	Finalizers []string
}

// Answer is EC2's response about the instances of one removal: those with the pool's tags and those noted.
type Answer struct{ Instances []Instance }

// Instance is an EC2 instance.
type Instance struct {
	ProviderID string
	State      string
	// Gone reports whether EC2 has terminated it.
	Gone bool
}

// notTerminated returns the instances that are not proven to be terminated: those that EC2 returns and that are not
// terminated, and noted ones that EC2 does not return, except those that were seen shutting down or have been absent
// for long enough.
func (o Observation) notTerminated(now time.Time) []Instance {
	if o.EC2 == nil {
		return nil
	}
	var left []Instance
	for _, id := range o.Unaskable {
		left = append(left, Instance{ProviderID: id, State: notOfEC2})
	}
	shown := map[string]bool{}
	for _, i := range o.EC2.Instances {
		shown[i.ProviderID] = true
		if !i.Gone {
			left = append(left, i)
		}
	}
	for id, seen := range o.Noted {
		if !shown[id] && !seen.isTerminating() && !o.Absent[id].proves(now) && !slices.Contains(o.Unaskable, id) {
			left = append(left, Instance{ProviderID: id, State: notInEC2})
		}
	}
	slices.SortFunc(left, func(a, b Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	return left
}

// The states of instances that a response does not contain: those not found, and those that cannot be queried in EC2.
const (
	notInEC2 = "not found in EC2"
	notOfEC2 = "not an EC2 instance"
)

// noResponse explains why there is no response, and what is known anyway.
func (o Observation) noResponse() string {
	if len(o.Shown) == 0 {
		return o.NoResponse
	}
	words := make([]string, 0, len(o.Shown))
	for _, i := range o.Shown {
		words = append(words, i.ProviderID+" ("+i.State+")")
	}
	return o.NoResponse + "; queried by ID, EC2 returns " + finding.First(words)
}

// missingInRecord returns what is missing in the record: provider IDs, and new states of instances that EC2 returned.
// An instance that was never noted and is terminating is not added.
func (o Observation) missingInRecord() (fresh []string, seen []Instance) {
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
		if now.rank() > before.rank() && (noted || !now.isTerminating() || slices.Contains(fresh, i.ProviderID)) {
			seen = append(seen, i)
		}
	}
	slices.SortFunc(seen, func(a, b Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	return fresh, seen
}

// hasUnseenInstance reports whether the record contains an instance that EC2 has not returned yet.
func (o Observation) hasUnseenInstance() bool {
	for id, seen := range o.Noted {
		if seen == "" && !slices.Contains(o.Unaskable, id) {
			return true
		}
	}
	return false
}
