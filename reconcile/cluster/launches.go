package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apifields "k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Launches are the NodePools whose newest NodeClaim got no instance, or whose node has not
// registered until its end. No condition
// of a NodePool says so: it stays Ready. A launch that AWS refuses stands in the
// NodeClaim's Launched condition; one for which there is no capacity ends the
// NodeClaim at once, and leaves an event behind
// (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle/launch.go).
//
// They are kept in memory: Karpenter tries again within minutes for as long as
// pods want a node, and a daemon that was restarted learns of it then.
type Launches struct {
	// Now tells the time.
	Now func() time.Time

	mu     sync.Mutex
	failed map[string]FailedLaunch
	joins  map[string]*joins
	// launched and registered are the newest successes of each pool: NodeClaims that got an instance, and whose node registered.
	launched, registered successes
}

// success is when the newest NodeClaim was created of those that succeeded, and when the last of them did. These may be two:
// a NodeClaim that is older than another may be launched after it.
type success struct{ created, at metav1.Time }

// successes are the newest success of each pool that has one.
type successes map[string]success

// FailedLaunch is the newest launch of a pool, which failed.
type FailedLaunch struct {
	// NodeClaim is that which got no instance, and when it was made; empty if Karpenter created none, as it finds no instance
	// type, and when it said so.
	NodeClaim string
	made      metav1.Time
	// At is when it was seen, and failed is when it failed.
	At     time.Time
	failed metav1.Time
	// Words are Karpenter's; empty while nobody has read the event.
	Words string
	// Asked is when the event was last looked for; zero if it never was.
	Asked time.Time
	// unregistered reports whether there was an instance: only a node that registers is better news.
	unregistered bool
	// under are the definitions under which Karpenter found no instance type.
	under string
}

// FailedLaunchLasts is how long a launch that failed counts, unless another one
// fails: Karpenter takes what it was refused for unavailable for three minutes
// (karpenter-provider-aws pkg/cache/cache.go), and then asks again.
const FailedLaunchLasts = 10 * time.Minute

// unregisteredLasts is how long a node that did not register counts: longer than the 15 minutes after which Karpenter deletes the next
// NodeClaim, if its node does not register either.
const unregisteredLasts = 20 * time.Minute

// Until is when a launch that failed no longer counts, unless another one fails.
func (f FailedLaunch) Until() time.Time {
	if f.unregistered {
		return f.At.Add(unregisteredLasts)
	}
	return f.At.Add(FailedLaunchLasts)
}

// See looks at a NodeClaim, and reports whether it has news of its pool.
func (l *Launches) See(claim *karpv1.NodeClaim) (news bool) {
	pool := claim.Labels[karpv1.NodePoolLabelKey]
	if pool == "" {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	joined := l.seeJoin(pool, claim)
	return l.seeLaunch(pool, claim) || joined
}

// seeLaunch looks at a NodeClaim for whether it has an instance.
func (l *Launches) seeLaunch(pool string, claim *karpv1.NodeClaim) (news bool) {
	if claim.Status.ProviderID != "" {
		return l.seeLaunched(pool, claim)
	}
	if claim.DeletionTimestamp != nil && l.launched.supersede(pool, claim.CreationTimestamp, *claim.DeletionTimestamp) {
		return false
	}
	before, known := l.failed[pool]
	words := launchTrouble(claim)
	if words == "" && claim.DeletionTimestamp == nil || known && before.NodeClaim == claim.Name && (words == "" || words == before.Words) {
		return false
	}
	if words == "" {
		words = before.Words // the same trouble, until an event says otherwise
	}
	if l.failed == nil {
		l.failed = map[string]FailedLaunch{}
	}
	failed := metav1.NewTime(l.Now()) // the condition does not say when: it has the time of the NodeClaim's creation
	if claim.DeletionTimestamp != nil {
		failed = *claim.DeletionTimestamp
	}
	l.failed[pool] = FailedLaunch{NodeClaim: claim.Name, made: claim.CreationTimestamp, At: l.Now(), failed: failed, Words: words}
	return true
}

// seeLaunched looks at a NodeClaim that has an instance.
func (l *Launches) seeLaunched(pool string, claim *karpv1.NodeClaim) (news bool) {
	if endedUnregistered(claim) {
		return l.note(pool, claim)
	}
	l.succeeded(pool, claim)
	before, known := l.failed[pool]
	newest := l.launched
	if before.unregistered {
		newest = l.registered
	}
	if known && newest.supersede(pool, before.made, before.failed) {
		delete(l.failed, pool)
		return true
	}
	return false
}

// supersede reports whether a launch of a NodeClaim that was created and that failed at given times is no news of its pool:
// a NodeClaim that was created no earlier has succeeded, or another has since. Both times are of whole seconds.
func (s successes) supersede(pool string, created, failed metav1.Time) bool {
	newest, known := s[pool]
	return known && (!newest.created.Before(&created) || !newest.at.Time.Before(failed.Truncate(time.Second)))
}

// succeeded notes that a NodeClaim of a pool has an instance, and perhaps a node.
func (l *Launches) succeeded(pool string, claim *karpv1.NodeClaim) {
	if l.launched == nil {
		l.launched, l.registered = successes{}, successes{}
	}
	l.launched[pool] = l.launched[pool].and(claim, karpv1.ConditionTypeLaunched)
	if claim.Status.NodeName != "" {
		l.registered[pool] = l.registered[pool].and(claim, karpv1.ConditionTypeRegistered)
	}
}

// and adds a NodeClaim that succeeded when a condition became True.
func (s success) and(claim *karpv1.NodeClaim, condition string) success {
	created := claim.CreationTimestamp
	if s.created.Before(&created) {
		s.created = created
	}
	if at := metav1.NewTime(created.Add(took(claim, condition))); s.at.Before(&at) {
		s.at = at
	}
	return s
}

// RegistersWithin is how long a node may take from its NodeClaim to its registration until its
// pool counts as one whose nodes do not register. Karpenter ends the NodeClaim after 15 minutes
// (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle/liveness.go), and says so of the
// pool only when half of the last few have ended so (pkg/state/nodepoolhealth).
const RegistersWithin = 5 * time.Minute

// endedUnregistered reports whether a NodeClaim has had an instance for so long, and ends without
// a node.
func endedUnregistered(claim *karpv1.NodeClaim) bool {
	return claim.Status.NodeName == "" && claim.DeletionTimestamp != nil &&
		claim.DeletionTimestamp.Sub(claim.CreationTimestamp.Time) >= RegistersWithin
}

// note notes a NodeClaim that ends unregistered, and reports whether that is news.
func (l *Launches) note(pool string, claim *karpv1.NodeClaim) (news bool) {
	before, known := l.failed[pool]
	if l.registered.supersede(pool, claim.CreationTimestamp, *claim.DeletionTimestamp) || known && (before.NodeClaim == claim.Name || claim.CreationTimestamp.Before(&before.made)) {
		return false
	}
	if l.failed == nil {
		l.failed = map[string]FailedLaunch{}
	}
	l.failed[pool] = FailedLaunch{
		NodeClaim: claim.Name, made: claim.CreationTimestamp, At: l.Now(), failed: *claim.DeletionTimestamp, unregistered: true,
		Words: "NodeClaim/" + claim.Name + " had an instance, but its node did not register",
	}
	return true
}

// launchTrouble is what a NodeClaim says of its launch; empty if nothing is
// wrong with it.
func launchTrouble(claim *karpv1.NodeClaim) string {
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeLaunched && c.Status != metav1.ConditionTrue && c.Reason != notTried {
			return c.Reason + ": " + Stable(c.Message)
		}
	}
	return ""
}

// notTried is the reason of a condition that nobody has set yet
// (github.com/awslabs/operatorpkg/status/condition_set.go).
const notTried = "AwaitingReconciliation"

// Failed is the launch of a pool that failed last; none if another one has
// gone well since, or too much time has passed.
func (l *Launches) Failed(pool string) (f FailedLaunch, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, failed = l.failed[pool]
	if failed && !l.Now().Before(f.Until()) {
		delete(l.failed, pool)
		return FailedLaunch{}, false
	}
	return f, failed
}

// Ask notes that the event on a launch is looked for.
func (l *Launches) Ask(pool string, of FailedLaunch, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now, known := l.failed[pool]; known && now.NodeClaim == of.NodeClaim {
		now.Asked = at
		l.failed[pool] = now
	}
}

// Explain notes what an event says of a launch; nothing where there is none, so
// that another client has ended the NodeClaim.
func (l *Launches) Explain(pool string, of FailedLaunch, words string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, known := l.failed[pool]
	switch {
	case !known || now.NodeClaim != of.NodeClaim:
	case words == "":
		delete(l.failed, pool)
	default:
		now.Words = words
		l.failed[pool] = now
	}
}

// insufficientCapacity is the reason of Karpenter's event
// (sigs.k8s.io/karpenter pkg/events/reason.go).
const insufficientCapacity = "InsufficientCapacityError"

// WhyNotLaunched reads what Karpenter's event says of a NodeClaim; empty if
// there is none.
func WhyNotLaunched(ctx context.Context, reader client.Reader, nodeClaim string) (words string, err error) {
	events, err := eventsAbout(ctx, reader, nodeClaim, insufficientCapacity)
	if err != nil {
		return "", fmt.Errorf("read why NodeClaim/%s was not launched: %w", nodeClaim, err)
	}
	if len(events) > 0 {
		return Stable(strings.TrimPrefix(events[0].Message, "NodeClaim "+nodeClaim+" event: ")), nil
	}
	return "", nil
}

// eventsAbout reads Karpenter's events about a NodeClaim for one reason.
func eventsAbout(ctx context.Context, reader client.Reader, nodeClaim, reason string) ([]corev1.Event, error) {
	events := &corev1.EventList{}
	about := client.MatchingFields{"involvedObject.name": nodeClaim}
	if err := reader.List(ctx, events, client.InNamespace(corev1.NamespaceDefault), about); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(events.Items, func(e corev1.Event) bool { return e.Reason != reason }), nil
}

// noInstanceTypes is the reason of Karpenter's event on a NodePool of which no instance type that is available meets the
// requirements (sigs.k8s.io/karpenter pkg/events/reason.go and pkg/controllers/provisioning/scheduling/events.go, 1.14.1).
// It creates no NodeClaim then, and no condition of the NodePool changes: it stays Ready. The event comes again each minute
// for as long as a pod waits.
const noInstanceTypes = "NoCompatibleInstanceTypes"

// poolEvents say what the watch cache holds of events: those of this reason.
func poolEvents() cache.ByObject {
	return cache.ByObject{
		Namespaces: map[string]cache.Config{corev1.NamespaceDefault: {}},
		Field:      apifields.SelectorFromSet(apifields.Set{"reason": noInstanceTypes}),
		Transform:  trimEvent,
	}
}

// trimEvent keeps what SeeEvent reads.
func trimEvent(obj any) (any, error) {
	e, ok := obj.(*corev1.Event)
	if !ok {
		return obj, nil
	}
	trimMetadata(e)
	return &corev1.Event{ObjectMeta: e.ObjectMeta, InvolvedObject: e.InvolvedObject, Reason: e.Reason, Message: e.Message, LastTimestamp: e.LastTimestamp}, nil
}

// SeeEvent looks at an event, and reports whether it is news of the NodePool that it is about. What AWS or Karpenter said of
// a NodeClaim tells more, and stays.
func (l *Launches) SeeEvent(e *corev1.Event) (news bool) {
	if e.Reason != noInstanceTypes || e.InvolvedObject.Name == "" {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	pool := e.InvolvedObject.Name
	before, known := l.failed[pool]
	known = known && l.Now().Before(before.Until())
	if known && (before.NodeClaim != "" || !before.At.Before(e.LastTimestamp.Time)) || !l.Now().Before(e.LastTimestamp.Add(FailedLaunchLasts)) ||
		l.launched.supersede(pool, e.LastTimestamp, e.LastTimestamp) {
		return false
	}
	if l.failed == nil {
		l.failed = map[string]FailedLaunch{}
	}
	now := FailedLaunch{made: e.LastTimestamp, failed: e.LastTimestamp, At: e.LastTimestamp.Time, Words: "Karpenter finds no instance type for it: " + e.Message}
	if known {
		now.under = before.under
	}
	l.failed[pool] = now
	return !known || before.Words != now.Words
}

// Under drops what an event said of a pool before its definitions changed. The definitions are those that the pool has now;
// equal texts are equal definitions.
func (l *Launches) Under(pool, definitions string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, known := l.failed[pool]
	switch {
	case !known || now.NodeClaim != "":
	case now.under == "":
		now.under = definitions
		l.failed[pool] = now
	case now.under != definitions:
		delete(l.failed, pool)
	}
}

// Join is a launch of a pool whose node has not joined the cluster: it has not registered, or is
// not initialized.
type Join struct {
	NodeClaim string
	Created   metav1.Time
	// ProviderID is that of its instance; empty if it has none.
	ProviderID string
	// Registered reports whether the node has registered.
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
// NodeClaim was created whose node has; zero if none has.
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

// seeJoin looks at a NodeClaim for whether its node joins, and reports whether that has changed.
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

// joinOf is what a NodeClaim tells of its launch; nil if its node has joined.
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
		j.Failed = "its node terminated before it was initialized"
	case j.ProviderID != "":
		j.Failed = "its instance was terminated before its node registered"
		if endedUnregistered(claim) {
			j.Failed = "it had an instance, but its node did not register in time"
		}
	case claim.DeletionTimestamp.Sub(claim.CreationTimestamp.Time) >= launchTimeout:
		j.Failed = "it got no instance: " + cmp.Or(launchTrouble(claim), "Karpenter gives no reason")
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
