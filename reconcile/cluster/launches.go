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

// Launches tracks the NodePools whose newest NodeClaim got no instance, or whose node did not register before it was
// deleted. No condition of a NodePool reports this: it stays Ready. If AWS rejects a launch, that is in the NodeClaim's
// Launched condition; if there is no capacity, Karpenter deletes the NodeClaim immediately and emits an event
// (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle/launch.go).
//
// They are kept in memory: Karpenter retries within minutes while pods need a node, so a restarted daemon soon finds
// out.
type Launches struct {
	// Now returns the current time.
	Now func() time.Time

	mu     sync.Mutex
	failed map[string]FailedLaunch
	joins  map[string]*joins
	// launched and registered are the newest successes of each pool: NodeClaims with an instance, and with a registered
	// node.
	launched, registered successes
}

// success has the creation time of the newest NodeClaim that succeeded, and the time of the last success. These may be
// different NodeClaims: one that is older than another may be launched after it.
type success struct{ created, at metav1.Time }

// successes maps a pool to its newest success.
type successes map[string]success

// FailedLaunch is the newest launch of a pool, if it failed.
type FailedLaunch struct {
	// NodeClaim is the one that got no instance, and made its creation time; if Karpenter created none because it finds
	// no instance type, NodeClaim is empty and made is the time of its event.
	NodeClaim string
	made      metav1.Time
	// At is when plumbline saw it, and failed is when it failed.
	At     time.Time
	failed metav1.Time
	// Words is Karpenter's message; empty until the event is read.
	Words string
	// Asked is when the event was last looked up; zero if never.
	Asked time.Time
	// unregistered reports whether there was an instance: then only a registered node supersedes the failure.
	unregistered bool
	// under are the definitions with which Karpenter found no instance type.
	under string
}

// FailedLaunchLasts is how long a failed launch counts, unless another one fails: Karpenter considers a rejected
// offering unavailable for three minutes (karpenter-provider-aws pkg/cache/cache.go), and then retries.
const FailedLaunchLasts = 10 * time.Minute

// unregisteredLasts is how long a node that did not register counts: longer than the 15 minutes after which Karpenter
// deletes the next NodeClaim if its node does not register either.
const unregisteredLasts = 20 * time.Minute

// Until returns when a failed launch no longer counts, unless another one fails.
func (f FailedLaunch) Until() time.Time {
	if f.unregistered {
		return f.At.Add(unregisteredLasts)
	}
	return f.At.Add(FailedLaunchLasts)
}

// See processes a NodeClaim, and reports whether that is news about its pool.
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

// seeLaunch checks whether a NodeClaim has an instance.
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
		words = before.Words // the same problem, until an event says otherwise
	}
	if l.failed == nil {
		l.failed = map[string]FailedLaunch{}
	}
	failed := metav1.NewTime(l.Now()) // the condition does not say when: its time is that of the NodeClaim's creation
	if claim.DeletionTimestamp != nil {
		failed = *claim.DeletionTimestamp
	}
	l.failed[pool] = FailedLaunch{NodeClaim: claim.Name, made: claim.CreationTimestamp, At: l.Now(), failed: failed, Words: words}
	return true
}

// seeLaunched processes a NodeClaim that has an instance.
func (l *Launches) seeLaunched(pool string, claim *karpv1.NodeClaim) (news bool) {
	if deletedUnregistered(claim) {
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

// supersede reports whether a failed launch of a NodeClaim, created and failed at the given times, is no news about its
// pool: a NodeClaim created at the same time or later has succeeded, or any has succeeded since. Both times are
// compared in whole seconds.
func (s successes) supersede(pool string, created, failed metav1.Time) bool {
	newest, known := s[pool]
	return known && (!newest.created.Before(&created) || !newest.at.Time.Before(failed.Truncate(time.Second)))
}

// succeeded records that a NodeClaim of a pool has an instance, and maybe a node.
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
	if at := metav1.NewTime(created.Add(conditionAfter(claim, condition))); s.at.Before(&at) {
		s.at = at
	}
	return s
}

// RegistersWithin is how long a node may take from its NodeClaim's creation to its registration before its pool counts
// as one whose nodes do not register. Karpenter deletes the NodeClaim after 15 minutes (sigs.k8s.io/karpenter
// pkg/controllers/nodeclaim/lifecycle/liveness.go), and reports this on the pool only when half of the last few have
// failed like this (pkg/state/nodepoolhealth).
const RegistersWithin = 5 * time.Minute

// deletedUnregistered reports whether a NodeClaim is deleted without a node, at least RegistersWithin after its
// creation.
func deletedUnregistered(claim *karpv1.NodeClaim) bool {
	return claim.Status.NodeName == "" && claim.DeletionTimestamp != nil &&
		claim.DeletionTimestamp.Sub(claim.CreationTimestamp.Time) >= RegistersWithin
}

// note records a NodeClaim that is deleted without a registered node, and reports whether that is news.
func (l *Launches) note(pool string, claim *karpv1.NodeClaim) (news bool) {
	before, known := l.failed[pool]
	if l.registered.supersede(pool, claim.CreationTimestamp, *claim.DeletionTimestamp) ||
		known && (before.NodeClaim == claim.Name || claim.CreationTimestamp.Before(&before.made)) {
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

// launchTrouble returns a NodeClaim's message on its failed launch; empty if there is none.
func launchTrouble(claim *karpv1.NodeClaim) string {
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeLaunched && c.Status != metav1.ConditionTrue && c.Reason != notTried {
			return c.Reason + ": " + Stable(c.Message)
		}
	}
	return ""
}

// notTried is the reason of a condition that no controller has set yet
// (github.com/awslabs/operatorpkg/status/condition_set.go).
const notTried = "AwaitingReconciliation"

// Failed returns the last failed launch of a pool; none if another one has succeeded since, or if it is too long ago.
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

// NoteLookup records that the event of a launch is being looked up.
func (l *Launches) NoteLookup(pool string, of FailedLaunch, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now, known := l.failed[pool]; known && now.NodeClaim == of.NodeClaim {
		now.Asked = at
		l.failed[pool] = now
	}
}

// Explain records the message of a launch's event. If there is none, another client deleted the NodeClaim, and the
// failure is dropped.
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

// insufficientCapacity is the reason of Karpenter's event (sigs.k8s.io/karpenter pkg/events/reason.go).
const insufficientCapacity = "InsufficientCapacityError"

// WhyNotLaunched returns the message of Karpenter's event about a NodeClaim; empty if there is none.
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

// noInstanceTypes is the reason of Karpenter's event about a NodePool whose requirements no available instance type
// meets (sigs.k8s.io/karpenter pkg/events/reason.go and pkg/controllers/provisioning/scheduling/events.go, 1.14.1). It
// then creates no NodeClaim, and no condition of the NodePool changes: it stays Ready. The event is repeated every
// minute while a pod is pending.
const noInstanceTypes = "NoCompatibleInstanceTypes"

// poolEvents defines which events the watch cache contains: those with this reason.
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
	return &corev1.Event{
		ObjectMeta: e.ObjectMeta, InvolvedObject: e.InvolvedObject, Reason: e.Reason, Message: e.Message, LastTimestamp: e.LastTimestamp,
	}, nil
}

// SeeEvent processes an event, and reports whether it is news about its NodePool. A message of AWS or Karpenter about a
// NodeClaim is more specific, and is kept.
func (l *Launches) SeeEvent(e *corev1.Event) (news bool) {
	if e.Reason != noInstanceTypes || e.InvolvedObject.Name == "" {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	pool := e.InvolvedObject.Name
	before, known := l.failed[pool]
	known = known && l.Now().Before(before.Until())
	if known && (before.NodeClaim != "" || !before.At.Before(e.LastTimestamp.Time)) ||
		!l.Now().Before(e.LastTimestamp.Add(FailedLaunchLasts)) ||
		l.launched.supersede(pool, e.LastTimestamp, e.LastTimestamp) {
		return false
	}
	if l.failed == nil {
		l.failed = map[string]FailedLaunch{}
	}
	now := FailedLaunch{
		made: e.LastTimestamp, failed: e.LastTimestamp, At: e.LastTimestamp.Time,
		Words: "Karpenter finds no instance type for it: " + e.Message,
	}
	if known {
		now.under = before.under
	}
	l.failed[pool] = now
	return !known || before.Words != now.Words
}

// DropOutdated drops the message of an event about a pool if its definitions have changed since. definitions are the
// pool's current ones; equal texts mean equal definitions.
func (l *Launches) DropOutdated(pool, definitions string) {
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

// Join is a launch of a pool whose node has not joined the cluster: it has not registered, or is not initialized.
type Join struct {
	NodeClaim string
	Created   metav1.Time
	// ProviderID is that of its instance; empty if there is none.
	ProviderID string
	// Registered reports whether the node has registered.
	Registered bool
	// Failed is why it will not join; empty while it still may.
	Failed string
}

// joins are the launches of one pool.
type joins struct {
	// joined is the creation time of the newest NodeClaim whose node has joined, and waiting are those created after
	// it, by name.
	joined  metav1.Time
	waiting map[string]Join
}

// keptJoins limits the launches that are kept for a pool: the oldest are dropped.
const keptJoins = 100

// Joins returns the launches of a pool whose nodes have not joined, oldest first, and the creation time of the newest
// NodeClaim whose node has; zero if none has.
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

// seeJoin checks whether the node of a NodeClaim has joined, and reports whether that has changed.
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

// join records that the node of a NodeClaim has joined: earlier launches no longer count.
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

// launchTimeout is how long Karpenter tries to launch an instance for a NodeClaim before it deletes the NodeClaim
// (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle/liveness.go). If AWS has no capacity, Karpenter deletes it
// immediately and tries another one: that is not a failure of the definition.
const launchTimeout = 5 * time.Minute

// joinOf returns the launch of a NodeClaim; nil if its node has joined.
func joinOf(claim *karpv1.NodeClaim) *Join {
	j := &Join{NodeClaim: claim.Name, Created: claim.CreationTimestamp, ProviderID: claim.Status.ProviderID}
	j.Registered = claim.Status.NodeName != ""
	if j.Registered && !hasCondition(claim, karpv1.ConditionTypeInitialized) {
		return nil // the cache keeps that condition only for NodeClaims that are not initialized
	}
	if claim.DeletionTimestamp == nil {
		return j
	}
	switch {
	case j.Registered:
		j.Failed = "its node terminated before it was initialized"
	case j.ProviderID != "":
		j.Failed = "its instance was terminated before its node registered"
		if deletedUnregistered(claim) {
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
