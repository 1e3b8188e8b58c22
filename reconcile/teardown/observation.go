package teardown

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Observation is what one pass sees of one removal's object.
type Observation struct {
	// Fresh says that the object, and what hangs on it, was read past the cache
	// in this pass.
	Fresh bool
	// Recorded says that the removal stands in the NodeSync's status and in its
	// record, both read back past the cache, so written by an earlier pass.
	Recorded bool
	// Noted are the provider IDs in the record, and whether EC2 has shown each.
	Noted map[string]bool
	// NotedAt is when the last of them was added.
	NotedAt time.Time
	// Missed is how many answers of EC2 in a row, this pass's among them, have
	// lacked a provider ID that it has never shown. A restart begins anew.
	Missed map[string]int

	// Exists says that an object of this name has the removal's UID.
	Exists          bool
	ResourceVersion string
	// Terminating says that it has a deletionTimestamp.
	Terminating bool
	// Static says that the pool has a fixed number of replicas.
	Static bool
	// GrowthStopped says that the pool makes no new node: its cpu limit is 0,
	// or its replicas are.
	GrowthStopped bool
	// NodeClaims are those of the pool.
	NodeClaims []Claim
	// ReferencedBy are the NodePools and NodeClaims that name the class, whoever
	// owns them, as kind/name, NodePools first.
	ReferencedBy []string

	// Hold is a person's word that is needed first; nil where none is.
	Hold *Hold
	// Controller is open while Karpenter's controller has a ready replica.
	Controller Gate
	// Cloud is open while EC2 is known to be the right account.
	Cloud Gate
	// Arrivals is open once every arrival and change of the revision is applied
	// and each new NodePool is Ready.
	Arrivals Gate

	// EC2 is its answer in this pass; nil where it has none.
	EC2 *Answer
	// Silence says why EC2, asked in this pass, gave no answer.
	Silence string
}

// Hold is why a removal waits for a person's word.
type Hold struct{ Reason, Message string }

// Gate is something that has to be so before anything is ended.
type Gate struct {
	Open bool
	// Message says, where the gate is closed, what it waits for. It does not
	// change by itself.
	Message string
}

// Claim is one NodeClaim of a pool.
type Claim struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	// ProviderID is empty until it has an instance.
	ProviderID string
	Node       string
	// Deleting is since when it has a deletionTimestamp; zero where it has none.
	Deleting time.Time
	// Waits are the messages of its conditions that tell what it waits for.
	Waits []string
}

// Answer is what EC2 says of the instances of one removal: those with the
// pool's tags and those noted.
type Answer struct{ Instances []Instance }

// Instance is one instance as EC2 has it.
type Instance struct {
	ProviderID string
	State      string
	// Gone says that EC2 has ended it.
	Gone bool
}

// settled is how long an instance that exists may be missing from EC2's
// answers. They are eventually consistent, by seconds as a rule; Karpenter
// itself reckons with minutes. An instance that was noted longer ago than this
// and that EC2 has never shown ended while nobody asked.
const settled = 10 * time.Minute

// settledAnswers is how many answers have to lack it besides: clocks jump.
const settledAnswers = 10

// unended returns the provider IDs of the instances that are not proven ended:
// those that EC2 shows alive, and those noted that it has not shown yet.
func (o Observation) unended(now time.Time) []string {
	if o.EC2 == nil {
		return nil
	}
	var alive []string
	shown := map[string]bool{}
	for _, i := range o.EC2.Instances {
		shown[i.ProviderID] = true
		if !i.Gone {
			alive = append(alive, i.ProviderID)
		}
	}
	for id, seen := range o.Noted {
		if !shown[id] && !seen && (now.Sub(o.NotedAt) < settled || o.Missed[id] < settledAnswers) {
			alive = append(alive, id)
		}
	}
	slices.Sort(alive)
	return alive
}

// news returns what the record lacks: provider IDs that it has not, and those
// that EC2 has shown for the first time.
func (o Observation) news() (fresh, seen []string) {
	for _, c := range o.NodeClaims {
		if _, noted := o.Noted[c.ProviderID]; !noted && c.ProviderID != "" {
			fresh = append(fresh, c.ProviderID)
		}
	}
	if o.EC2 != nil {
		for _, i := range o.EC2.Instances {
			if !o.Noted[i.ProviderID] {
				seen = append(seen, i.ProviderID)
			}
		}
	}
	slices.Sort(fresh)
	slices.Sort(seen)
	return slices.Compact(fresh), slices.Compact(seen)
}

// unseen says that the record has an instance that EC2 has not shown yet.
func (o Observation) unseen() bool {
	for _, seen := range o.Noted {
		if !seen {
			return true
		}
	}
	return false
}
