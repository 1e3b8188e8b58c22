package observe

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Join is a launch of a pool whose node has not joined the cluster: it has not registered, or is
// not initialized.
type Join struct {
	NodeClaim string
	Created   metav1.Time
	// ProviderID is that of its instance; empty where it has none.
	ProviderID string
	// Registered says that the node has registered.
	Registered bool
	// Failed is why it will not join; empty while it may.
	Failed string
}

// joins are the launches of one pool.
type joins struct {
	// joined is when the newest NodeClaim was created whose node has joined, and waiting are those
	// created after it, by name.
	joined  metav1.Time
	waiting map[string]Join
}

// keptJoins is how many launches of a pool are kept: of more than these the oldest are forgotten.
const keptJoins = 100

// Joins are the launches of a pool whose nodes have not joined, oldest first, and when the newest
// NodeClaim was created whose node has; zero where none has.
func (l *Launches) Joins(pool string) (waiting []Join, joined metav1.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.joins[pool]
	if of == nil {
		return nil, metav1.Time{}
	}
	return of.sorted(), of.joined
}

func (j *joins) sorted() []Join {
	all := make([]Join, 0, len(j.waiting))
	for _, one := range j.waiting {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Join) int {
		return cmp.Or(a.Created.Compare(b.Created.Time), cmp.Compare(a.NodeClaim, b.NodeClaim))
	})
	return all
}

// seeJoin looks at a NodeClaim for whether its node joins, and says whether that has changed.
func (l *Launches) seeJoin(pool string, claim *karpv1.NodeClaim) (news bool) {
	of := l.joins[pool]
	if of == nil {
		of = &joins{waiting: map[string]Join{}}
		if l.joins == nil {
			l.joins = map[string]*joins{}
		}
		l.joins[pool] = of
	}
	before, known := of.waiting[claim.Name]
	switch now := joinOf(claim); {
	case now == nil: // it has joined
		return of.join(claim)
	case claim.CreationTimestamp.Before(&of.joined), claim.DeletionTimestamp != nil && now.Failed == "":
		delete(of.waiting, claim.Name)
		return false
	default:
		of.waiting[claim.Name] = *now
		of.bound()
		return now.Failed != before.Failed || known && now.Registered != before.Registered
	}
}

// join notes that the node of a NodeClaim has joined: what was launched before it counts no more.
func (j *joins) join(claim *karpv1.NodeClaim) (news bool) {
	if _, waited := j.waiting[claim.Name]; waited {
		news = true
		delete(j.waiting, claim.Name)
	}
	if !j.joined.Before(&claim.CreationTimestamp) {
		return news
	}
	j.joined = claim.CreationTimestamp
	for name, one := range j.waiting {
		if !j.joined.Before(&one.Created) {
			delete(j.waiting, name)
		}
	}
	return news
}

func (j *joins) bound() {
	if len(j.waiting) > keptJoins {
		delete(j.waiting, j.sorted()[0].NodeClaim)
	}
}

// launchTimeout is how long Karpenter tries to get an instance for a NodeClaim before it deletes it
// (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle/liveness.go). One for which AWS has no
// capacity it deletes at once, and tries another: that is no failure of a definition.
const launchTimeout = 5 * time.Minute

// joinOf is what a NodeClaim tells of its launch; nil where its node has joined.
func joinOf(claim *karpv1.NodeClaim) *Join {
	j := &Join{NodeClaim: claim.Name, Created: claim.CreationTimestamp, ProviderID: claim.Status.ProviderID}
	j.Registered = claim.Status.NodeName != ""
	if j.Registered && !hasCondition(claim, karpv1.ConditionTypeInitialized) {
		return nil // the cache keeps that condition of nodes that are not initialized
	}
	if claim.DeletionTimestamp == nil {
		return j
	}
	switch {
	case j.Registered:
		j.Failed = "its node was not initialized until it ended"
	case j.ProviderID != "":
		j.Failed = "its instance ended before its node registered"
		if endedUnregistered(claim) {
			j.Failed = "it had an instance, and its node did not register in time"
		}
	case claim.DeletionTimestamp.Sub(claim.CreationTimestamp.Time) >= launchTimeout:
		j.Failed = "it got no instance: " + cmp.Or(launchTrouble(claim), "Karpenter does not say why")
	}
	return j
}

func hasCondition(claim *karpv1.NodeClaim, kind string) bool {
	for _, c := range claim.Status.Conditions {
		if c.Type == kind {
			return true
		}
	}
	return false
}
