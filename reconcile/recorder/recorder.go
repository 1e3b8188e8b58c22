package recorder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Recorder records terminated NodeClaims. It runs only on the leader.
type Recorder struct {
	Options

	ring  ring
	woken chan struct{}
	// cached is what Kept returns.
	cached cache

	// Written by the watch and read by the loop.
	mu   sync.Mutex
	seen map[types.UID]*termination
	// known are the pools that the loop has read.
	known map[string]bool
	// watching reports whether the watch runs.
	watching bool
	// foreign are the instances that another client has terminated, by ID.
	foreign map[string]InstanceTermination

	// Only used by the loop.
	logs   map[types.NamespacedName]*logState
	pools  map[string]pool
	wrote  time.Time
	loaded bool
	// began is when the loop started.
	began time.Time
	// counts limits on how many nodes pods are counted.
	counts *rate.Limiter
}

// Options are the dependencies of a Recorder.
type Options struct {
	// Cached reads NodeSyncs and NodePools from the watch cache.
	Cached client.Reader
	// Uncached reads ConfigMaps, Karpenter's events, Nodes and their pods.
	Uncached client.Reader
	Writer   client.Writer
	// EC2 returns the client of a region. It makes no request.
	EC2       func(ctx context.Context, region string) (EC2, error)
	Namespace string
	Now       func() time.Time
	// Terminated is called for the NodeSync of an instance that another client has terminated. It never blocks. It may be
	// nil.
	Terminated func(types.NamespacedName)
}

// New returns an empty Recorder.
func New(o Options) *Recorder {
	return &Recorder{
		Options: o, ring: defaultRing, woken: make(chan struct{}, 1),
		seen: map[types.UID]*termination{}, known: map[string]bool{},
		logs: map[types.NamespacedName]*logState{}, pools: map[string]pool{}, counts: rate.NewLimiter(countsRate, countsBurst),
	}
}

// termination is a NodeClaim that is terminating, or was just terminated.
type termination struct {
	facts   Facts
	poolUID types.UID

	// of is its owner; zero if its pool belongs to no NodeSync. enriched reports whether facts contains the state from
	// when its deletion started.
	of       owner
	enriched bool
	// askAt is when EC2 may be queried about it again.
	askAt time.Time
	// before is what an earlier leader has written about it.
	before *Record
	// seq is its number if numbered is true. body is the line that is written about it, without the number; unsaved
	// reports whether there is more to write.
	seq      int
	numbered bool
	body     string
	unsaved  bool
}

const (
	// roundInterval is the minimum interval between two rounds.
	roundInterval = 500 * time.Millisecond
	// writeInterval is the minimum interval between two writes.
	writeInterval = 5 * time.Second
	// settlePeriod is how long after the termination a Record may still change: Karpenter sends its events after the
	// deletion.
	settlePeriod = 10 * time.Second
	// heartbeat is how often it is written that nothing was terminated.
	heartbeat = 5 * time.Minute
	// observeDelay is the maximum delay with which a termination is observed.
	observeDelay = 2 * time.Second
	// timeout limits one round, and shutdownTimeout the last one.
	timeout         = 30 * time.Second
	shutdownTimeout = 3 * time.Second
	// maxUnwritten is how many deleted NodeClaims may wait to be written.
	maxUnwritten = 4000
)

// See is called with each NodeClaim that the watch reports. It never blocks for long.
func (r *Recorder) See(claim *karpv1.NodeClaim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching = true
	if claim.DeletionTimestamp != nil {
		r.note(claim)
	} else if r.known[claim.Labels[karpv1.NodePoolLabelKey]] {
		return
	}
	r.wake()
}

// Gone is called with the last known state of each deleted NodeClaim; missed reports whether its deletion was not
// observed.
func (r *Recorder) Gone(claim *karpv1.NodeClaim, missed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching = true
	e := r.note(claim)
	now := metav1.NewTime(r.Now()).Rfc3339Copy()
	e.facts.Gone, e.facts.Missed, e.facts.Late = now, missed, missed
	if e.facts.Deleted.IsZero() {
		e.facts.Deleted = now // it had no finalizer
	}
	r.wake()
}

// note records the state of a NodeClaim.
func (r *Recorder) note(claim *karpv1.NodeClaim) *termination {
	e := r.seen[claim.UID]
	if e == nil {
		e = &termination{poolUID: cluster.NodeClaim(claim).PoolUID}
		e.facts.Terminate = cluster.TerminatesAt(claim)
		r.seen[claim.UID] = e
	}
	known := e.facts.Record
	e.facts.Record = RecordOf(claim)
	e.facts.Revision, e.facts.ByRevision, e.facts.Pods = known.Revision, known.ByRevision, known.Pods
	e.facts.DisruptionReason, e.facts.Launching, e.facts.Image = "", "", claim.Status.ImageID
	for _, c := range claim.Status.Conditions {
		holds := c.Status == metav1.ConditionTrue
		switch {
		case c.Type == karpv1.ConditionTypeDisruptionReason && holds:
			e.facts.DisruptionReason = c.Reason
		case c.Type == karpv1.ConditionTypeDrifted && holds:
			e.facts.DriftReason = c.Reason
		case c.Type == karpv1.ConditionTypeLaunched && !holds:
			e.facts.Launching = c.Reason
		}
	}
	if after := claim.Spec.ExpireAfter.Duration; after != nil {
		e.facts.ExpireAfter = *after
	}
	return e
}

func (r *Recorder) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// NeedLeaderElection returns true: the Recorder runs only on the leader.
func (*Recorder) NeedLeaderElection() bool { return true }

// Start records until the context ends.
func (r *Recorder) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := r.Now()
	for {
		select {
		case <-ctx.Done():
			ending, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
			defer stop()
			if _, err := r.round(ending, true); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "the last terminated nodes may not be recorded")
			}
			return nil
		case <-r.woken:
			if soon := r.Now().Add(roundInterval); soon.Before(next) {
				next = soon
				timer.Reset(roundInterval)
				r.countFirst(ctx)
			}
			continue
		case <-timer.C:
		}
		wait := r.once(ctx)
		next = r.Now().Add(wait)
		timer.Reset(wait)
	}
}

// once runs a round, logs its errors, and returns when the next one is due.
func (r *Recorder) once(ctx context.Context) time.Duration {
	bounded, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	wait, err := r.round(bounded, false)
	if err != nil {
		if ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "failed to record terminated nodes; retrying")
		}
		return writeInterval
	}
	return wait
}

// karpenter is the version of Karpenter's API in use.
var karpenter = schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}

// pool is a NodePool as the loop last saw it.
type pool struct {
	uid types.UID
	// of is the NodeSync that owned it; zero if there was none.
	of owner
	// sync is that NodeSync.
	sync *v1alpha1.NodeSync
	// ends reports whether it is terminating or gone, and gone is since when. static reports whether it has replicas.
	ends, static bool
	gone         time.Time
}

// keepGonePools is how long a pool is remembered after it is gone, because its NodeClaims are deleted later.
const keepGonePools = time.Hour

// readPools reads the NodePools and their owners. It remembers the last state of deleted ones.
func (r *Recorder) readPools(ctx context.Context) error {
	syncs := &v1alpha1.NodeSyncList{}
	if err := r.Cached.List(ctx, syncs, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("read the NodeSyncs: %w", err)
	}
	kind, _ := render.KindOf(render.NodePool)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GVK)
	if err := r.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil && !apimeta.IsNoMatchError(err) {
		return fmt.Errorf("read the NodePools: %w", err)
	}
	pools, known := make(map[string]pool, len(list.Items)), make(map[string]bool, len(list.Items))
	for i := range list.Items {
		object := &list.Items[i]
		p := pool{uid: object.GetUID(), ends: object.GetDeletionTimestamp() != nil, static: plan.IsStatic(object)}
		p.sync = ownerOf(object, syncs.Items)
		if p.sync != nil {
			p.of = owner{client.ObjectKeyFromObject(p.sync), p.sync.UID}
		}
		pools[object.GetName()], known[object.GetName()] = p, true
	}
	now := r.Now()
	for name, p := range r.pools {
		if known[name] || p.of == (owner{}) || !p.gone.IsZero() && now.Sub(p.gone) > keepGonePools {
			continue
		}
		if p.gone.IsZero() {
			p.gone = now
		}
		p.ends, p.sync = true, find(syncs.Items, p.of)
		pools[name], known[name] = p, true
	}
	r.pools = pools
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = known
	return nil
}

// ownerOf returns the NodeSync that owns a pool; nil if there is none.
func ownerOf(object client.Object, syncs []v1alpha1.NodeSync) *v1alpha1.NodeSync {
	for i := range syncs {
		if plan.OwnerOf(syncs[i].Namespace, syncs[i].Name).Owns(object) {
			return &syncs[i]
		}
	}
	return nil
}

func find(syncs []v1alpha1.NodeSync, of owner) *v1alpha1.NodeSync {
	for i := range syncs {
		if syncs[i].UID == of.uid {
			return &syncs[i]
		}
	}
	return nil
}

// enrich adds to the NodeClaims' own facts the state of other objects when their deletion starts.
func (r *Recorder) enrich(ctx context.Context, all map[types.UID]termination) error {
	for uid, e := range all {
		p := r.pools[e.facts.Pool]
		if p.sync != nil && e.facts.Removing == "" {
			e.facts.Removing = removing(p.sync, e.facts)
		}
		if !e.enriched {
			e.enriched = true
			e.of = p.of
			e.facts.PoolGone = e.poolUID != "" && (p.ends || p.uid != e.poolUID)
			e.facts.Static = p.static
			if p.sync != nil {
				e.facts.Revision, e.facts.ByRevision = revisionOf(p.sync)
				if input := p.sync.Status.Rollout.InputOf(e.facts.Pool, e.facts.DriftReason, e.facts.Image); input != nil {
					e.facts.DriftInputs = input.Words()
				}
			}
			r.resume(&e)
			if e.facts.terminatedImmediately() && e.facts.Gone.IsZero() {
				condition, err := r.repaired(ctx, e.facts)
				if err != nil {
					return err
				}
				e.facts.Condition = condition
			}
		}
		all[uid] = e
	}
	return nil
}

// resume continues with what an earlier leader has written about a NodeClaim.
func (r *Recorder) resume(e *termination) {
	b := r.logs[e.of.NamespacedName]
	if b == nil {
		return
	}
	open, found := b.open[keyOf(e.facts.NodeClaim, e.facts.Created)]
	if !found {
		return
	}
	e.before, e.seq, e.numbered = &open.record, open.seq, true
	if open.record.Pods != nil {
		e.facts.Pods = open.record.Pods // counted when more of them were left
	}
	delete(b.open, keyOf(e.facts.NodeClaim, e.facts.Created))
}

// revisionOf returns the revision in force, and whether its rollout is in progress.
func revisionOf(sync *v1alpha1.NodeSync) (revision string, rollout bool) {
	if rolls := sync.Status.Rollout; rolls != nil && rolls.Revision != "" {
		return rolls.Revision, true
	}
	return sync.Status.NewestAppliedRevision(), false
}

// statusDelay is how long after the first deletion the status may first show that a removal terminates NodeClaims: the
// status is saved at the end of a reconcile.
const statusDelay = 10 * time.Second

// removing returns the revision of the removal that was terminating the NodeClaims of a pool.
func removing(sync *v1alpha1.NodeSync, f Facts) string {
	for _, removal := range sync.Status.Removals {
		if removal.Kind != render.NodePool || removal.Name != f.Pool || f.Deleted.Before(&removal.RecordedAt) {
			continue
		}
		switch removal.Phase {
		case v1alpha1.RemovalHeld, v1alpha1.RemovalPacing:
		case v1alpha1.RemovalDraining:
			if !removal.Since.After(f.Deleted.Add(statusDelay)) {
				return removal.Revision
			}
		default:
			return removal.Revision
		}
	}
	return ""
}

// repairPolicies are the conditions of a Node for which Karpenter repairs it, and after how long
// (karpenter-provider-aws pkg/cloudprovider/cloudprovider.go: RepairPolicies).
var repairPolicies = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	after     time.Duration
}{
	{corev1.NodeReady, corev1.ConditionFalse, 30 * time.Minute},
	{corev1.NodeReady, corev1.ConditionUnknown, 30 * time.Minute},
	{"AcceleratedHardwareReady", corev1.ConditionFalse, 10 * time.Minute},
	{"StorageReady", corev1.ConditionFalse, 30 * time.Minute},
	{"NetworkingReady", corev1.ConditionFalse, 30 * time.Minute},
	{"KernelReady", corev1.ConditionFalse, 30 * time.Minute},
	{"ContainerRuntimeReady", corev1.ConditionFalse, 30 * time.Minute},
}

// repaired returns the condition of a Node for which Karpenter has terminated it; empty if there is none.
func (r *Recorder) repaired(ctx context.Context, f Facts) (string, error) {
	node := &corev1.Node{}
	if err := r.Uncached.Get(ctx, types.NamespacedName{Name: f.Node}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("read the conditions of Node %s: %w", f.Node, err)
	}
	return unhealthy(node, f.Deleted.Time), nil
}

// unhealthy returns the condition for which Karpenter would repair a Node at a time.
func unhealthy(node *corev1.Node, at time.Time) string {
	for _, c := range node.Status.Conditions {
		for _, repair := range repairPolicies {
			if c.Type == repair.condition && c.Status == repair.status && !c.LastTransitionTime.Add(repair.after).After(at) {
				return fmt.Sprintf("%s=%s", c.Type, c.Status)
			}
		}
	}
	return ""
}

// The pods of up to countsBurst nodes are counted at once, then of countsRate nodes a second. If more are terminated
// together, the others have no number. Each count is a request, and Karpenter does not terminate more for long.
const (
	countsBurst = 100
	countsRate  = rate.Limit(5)
)

const (
	// countsFor is how long after the start of the deletion pods are counted: pods that have stopped by then are
	// missing.
	countsFor = 10 * time.Second
	// countsWithin limits the time that a round spends on counting: nothing waits for a number.
	countsWithin = 2 * time.Second
)

// countFirst counts for new NodeClaims before the next round, because pods are gone soon.
func (r *Recorder) countFirst(ctx context.Context) {
	all, _ := r.snapshot()
	r.countPods(ctx, all, r.Now())
	r.keep(all)
}

// countPods counts the pods on nodes whose termination has just started. While the API server does not respond, there
// is no number.
func (r *Recorder) countPods(ctx context.Context, all map[types.UID]termination, now time.Time) {
	ctx, stop := context.WithTimeout(ctx, countsWithin)
	defer stop()
	for uid, e := range all {
		if !r.mayCount(e, now) || !r.counts.AllowN(now, 1) {
			continue
		}
		pods, err := r.podsOn(ctx, e.facts)
		if err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("failed to count the pods of terminating nodes", "error", err.Error())
			return
		}
		e.facts.Pods = &pods
		if e.facts.NodeGone, err = cluster.NodeGone(ctx, r.Uncached, e.facts.Node); err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("failed to read whether the Nodes of terminating NodeClaims still exist", "error", err.Error())
		}
		all[uid] = e
	}
}

// mayCount reports whether the termination of a node has just started.
func (r *Recorder) mayCount(e termination, now time.Time) bool {
	f := e.facts
	begins := f.Gone.IsZero() && f.Drained.IsZero() && now.Sub(f.Deleted.Time) < countsFor
	return begins && f.Pods == nil && f.Node != "" && r.pools[f.Pool].of != owner{}
}

// podsOn returns how many pods were on a node when the deletion of its NodeClaim started, given their metadata.
func (r *Recorder) podsOn(ctx context.Context, f Facts) (n int, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	unfinished := fields.AndSelectors(
		fields.OneTermEqualSelector("spec.nodeName", f.Node),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
	if err := r.Uncached.List(ctx, list, client.MatchingFieldsSelector{Selector: unfinished}); err != nil {
		return 0, fmt.Errorf("read the pods of Node %s: %w", f.Node, err)
	}
	for i := range list.Items {
		if moves(&list.Items[i].ObjectMeta, f.Deleted.Time) {
			n++
		}
	}
	return n, nil
}

// moves reports whether a pod must run elsewhere when its node is terminated: it does not belong to a DaemonSet, is not
// static, and was not terminating before.
func moves(pod *metav1.ObjectMeta, began time.Time) bool {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return false
	}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return false
	}
	if pod.DeletionTimestamp == nil {
		return true
	}
	grace := time.Duration(0)
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	return !pod.DeletionTimestamp.Add(-grace).Before(began)
}

// EC2 is the client that queries how instances were terminated.
type EC2 interface {
	Fleet(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)
}

// Answer is EC2's response about an instance whose NodeClaim is terminated.
type Answer struct {
	// Ran reports whether it was not shutting down when EC2 was queried after the deletion started.
	Ran bool
	// Ended reports whether it is terminated or shutting down. Code is the code of its StateReason, and Began is when
	// the shutdown began: zero if EC2 does not report it.
	Ended bool
	Code  string
	Began time.Time
}

const (
	// asksAgain is when EC2 is queried again about an instance about which it has not reported enough, and asksFor how
	// long after the termination that continues.
	asksAgain, asksFor = 30 * time.Second, 5 * time.Minute
	// asksWithin limits one query: what was terminated is written after it.
	asksWithin = 10 * time.Second
)

// add adds an instance from EC2's response.
func (a *Answer) add(i cloud.Instance) {
	switch i.State {
	case "shutting-down", "terminated":
		code, _, _ := strings.Cut(i.Reason, ":")
		a.Ended, a.Code, a.Began = true, code, i.Since
	case "":
	default:
		a.Ran = true
	}
}

// asksEC2 reports whether EC2 may know what nothing in the cluster shows: whether the instance was terminated before
// its NodeClaim.
func (f Facts) asksEC2() bool {
	if f.Instance == "" || f.Missed || f.EC2.Ended {
		return false
	}
	if f.EC2.Ran && f.InstanceTerminating.IsZero() && f.Gone.IsZero() {
		return false // EC2 is queried when the instance is terminated
	}
	cause, _ := Judge(f)
	return cause == ByHand || cause == Unknown || cause == InstanceGone
}

// mayAsk reports whether a response of EC2 would add something, and the Record is not overwritten by newer ones.
func (r *Recorder) mayAsk(e termination) bool {
	b := r.logs[e.of.NamespacedName]
	return b != nil && (!e.numbered || e.seq >= b.next-r.ring.capacity()) && e.facts.asksEC2()
}

// askEC2 queries those about which EC2 may know more, each from time to time. If there is no response, it assumes
// nothing, and the query is repeated.
func (r *Recorder) askEC2(ctx context.Context, all map[types.UID]termination, now time.Time) {
	byRegion := map[string][]types.UID{}
	for _, uid := range slices.Backward(inOrder(all)) {
		e := all[uid]
		sync := r.pools[e.facts.Pool].sync
		if sync == nil || sync.Status.Karpenter == nil || now.Before(e.askAt) || !r.mayAsk(e) {
			continue
		}
		if region := sync.Status.Karpenter.Region; len(byRegion[region]) < r.ring.capacity() {
			e.askAt = now.Add(asksAgain)
			all[uid] = e
			byRegion[region] = append(byRegion[region], uid)
		}
	}
	for region, some := range byRegion {
		shown, err := r.instances(ctx, region, some, all)
		if err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("EC2 did not report why instances were terminated", "region", region, "error", err.Error())
		}
		for _, uid := range some {
			e := all[uid]
			e.facts.EC2.add(shown[e.facts.Instance])
			all[uid] = e
		}
	}
}

// instances returns the instances of NodeClaims in EC2, by their IDs.
func (r *Recorder) instances(
	ctx context.Context, region string, of []types.UID, all map[types.UID]termination,
) (map[string]cloud.Instance, error) {
	ctx, stop := context.WithTimeout(ctx, asksWithin)
	defer stop()
	ec2, err := r.EC2(ctx, region)
	if err != nil {
		return nil, err
	}
	var query cloud.Query
	for _, uid := range of {
		f := all[uid].facts
		query.ProviderIDs = append(query.ProviderIDs, cloud.Instance{Zone: f.Zone, ID: f.Instance}.ProviderID())
	}
	found, err := ec2.Fleet(ctx, query)
	shown := make(map[string]cloud.Instance, len(found))
	for _, i := range found {
		shown[i.ID] = i
	}
	return shown, err
}
