package removal

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// World is everything that a removal reads and writes.
type World struct {
	// Cache reads from the watch cache.
	Cache client.Reader
	// Live reads past the cache.
	Live client.Reader
	// Writer writes to the API server.
	Writer client.Writer
	// Home is the cluster of the NodeSync and of the records of its removals, which may differ from the cluster of the
	// nodes.
	Home Home
	// EC2 is the client for instances; nil if the region is unknown.
	EC2 EC2
	// StillLeader returns an error if this process may no longer write. It is called before each write.
	StillLeader func(context.Context) error
	// RecordsGo reports whether the namespace of the records is being deleted, and with it the permission to read them.
	RecordsGo bool
}

// Home reads past the cache, and writes to the API server.
type Home struct {
	client.Reader
	client.Writer
}

// EC2 queries instances.
type EC2 = rollout.EC2

// Pass is the input of one reconcile.
type Pass struct {
	Now time.Time
	// Sync is the NodeSync as it is in this reconcile.
	Sync *v1alpha1.NodeSync
	// Cluster is the name with which Karpenter tags instances.
	Cluster string
	// StallAfter is how long a removal may make no progress.
	StallAfter time.Duration
	// DiagnosedAt comes from the last DriveResult: when the nodes were last diagnosed.
	DiagnosedAt time.Time
	// AskEvery is the minimum interval between two queries to EC2; AskedAt is the time of the last one.
	AskEvery time.Duration
	AskedAt  time.Time
	// Absent comes from the last DriveResult: instances that EC2's responses do not contain.
	Absent map[string]Absence
	// Evicted comes from the last DriveResult: terminating NodeClaims whose pods are noted.
	Evicted map[types.UID]bool

	Controller Gate
	Cloud      Gate
	// Arrivals returns a removal's gate for the additions of its revision.
	Arrivals func(v1alpha1.Removal) Gate
	// Successor returns a removal's gate for its pods: whether a NodePool that stays could take them.
	Successor func(v1alpha1.Removal) Gate
	// NewOwner returns the NodeSync to which an object moves or has moved, as namespace/name; empty if it stays with this
	// one.
	NewOwner func(*unstructured.Unstructured) string
	// Unremoved explains, by kind/name, why objects that were removed from Git are not deleted, and what to do.
	Unremoved map[string]string
	// Leader reports whether a pod of Karpenter's controller holds its lease. It is called only if a NodeClaim is about
	// to be terminated.
	Leader func(context.Context) Gate
	// DaemonSets returns those of CSI drivers and CNI plugins. It is called only if a volume blocks a node.
	DaemonSets func(context.Context) plan.DaemonSets
	// Log returns the end of the log of Karpenter's controller. It is called only if EC2 does not accept a termination.
	// If nil, no log is read.
	Log func(context.Context) string
	// TerminatesFirst reports whether Karpenter terminates nodes in reserved capacity before their replacements exist. It
	// is called only if Karpenter replaces a pool that has such nodes. If nil, Karpenter does not.
	TerminatesFirst func(context.Context) bool
	// Pace is how fast NodeClaims are terminated.
	Pace Pace
	// Frozen explains why no node may be removed now; empty if nodes may be removed.
	Frozen string
	// Keeps reports whether only the nodes are removed, and the objects stay.
	Keeps bool
	// Holds are the removals that a person must release. Queued are those that wait for others to complete, each with a
	// message.
	Holds  map[types.UID]Hold
	Queued map[types.UID]string
	// Counts are the removals that count for later ones: each starts once status.recentRemovals, read back, contains
	// it.
	Counts map[types.UID]bool
}

// DriveResult is the result of a reconcile of all removals. It is valid even if there was an error, so an error in one
// removal does not discard the progress of others.
type DriveResult struct {
	// Removals are all removals from the input, in the same order, with their new content. Those in phase Gone may be
	// left out of the status.
	Removals []v1alpha1.Removal
	// AskedAt is when EC2 was last queried. Absent are the instances that its responses do not contain, by provider ID.
	// Both are for the next Pass.
	AskedAt time.Time
	Absent  map[string]Absence
	// Evicted are the terminating NodeClaims whose pods are noted, by UID, for the next Pass.
	Evicted map[types.UID]bool
	// DiagnosedAt is when the nodes were last diagnosed, for the next Pass.
	DiagnosedAt time.Time
	// Again is when to reconcile next, in addition to watch events; zero if watch events are enough.
	Again time.Time
	// Writes are the writes to the cluster, for events.
	Writes []Write
	// Undiagnosed is the error of a read for a diagnosis. It stops nothing.
	Undiagnosed error
}

// Write is one thing that was done for a removal.
type Write struct {
	Kind, Name string
	Action     Action
}

// conflictRetry is how long to wait after a conflict with another client.
const conflictRetry = time.Second

// Drive takes each removal one step further: it observes, calls Next, answers the questions of Next, writes the record,
// and acts.
func Drive(ctx context.Context, w World, p Pass, removals []v1alpha1.Removal) (DriveResult, error) {
	d := newDrive(w, p)
	for _, r := range removals {
		it := &item{before: r, after: r}
		if _, it.known = render.KindOf(r.Kind); !it.known {
			it.after.Reason, it.after.Message = ReasonUnknownKind, "this version of plumbline does not support the kind: run the version that recorded the removal"
		}
		d.items = append(d.items, it)
	}
	err := d.run(ctx)
	for _, it := range d.items {
		d.result.Removals = append(d.result.Removals, it.after)
		d.wake(it)
	}
	return d.result, err
}

func newDrive(w World, p Pass) *drive {
	return &drive{
		World: w, Pass: p, evicted: map[types.UID]bool{},
		result: DriveResult{AskedAt: p.AskedAt, Absent: p.Absent, Evicted: p.Evicted, DiagnosedAt: p.DiagnosedAt},
		pods: podReader{
			reader: w.Live, read: map[podsOf][]ownedPod{}, on: map[types.UID][]string{}, empty: map[string]bool{},
			needs: map[string]corev1.ResourceList{}, stays: map[string]string{}, now: p.Now,
		},
	}
}

// drive is one call of Drive.
type drive struct {
	World
	Pass
	items   []*item
	records *records
	result  DriveResult
	pods    podReader
	// evicted becomes Evicted of the result once the pods of these NodeClaims are noted.
	evicted map[types.UID]bool
	// leaving are the terminating NodeClaims of removals that are not driven, by the key of their record.
	leaving map[types.UID][]types.UID
	// terminatesFirst is the result of TerminatesFirst.
	terminatesFirst bool
	// leader is the result of Leader in this reconcile.
	leader *Gate
}

// item is one removal in a reconcile.
type item struct {
	before, after v1alpha1.Removal
	seen          Observation
	actions       []Action
	// known reports whether this version of plumbline can remove objects of this kind.
	known bool
	// taken reports whether another object has the object's name by now.
	taken bool
	// growth is what is overwritten when growth is stopped.
	growth Growth
	// budgets are the pool's disruption budgets without plumbline's; paces reports whether it has any of plumbline's.
	budgets []any
	paces   bool
	// bytes is the size that the budgets from before the removal have in the record.
	bytes int
	// labels are those of the pool's template, including plumbline's while its nodes are being replaced.
	labels map[string]any
}

func (d *drive) run(ctx context.Context) error {
	if len(d.open()) == 0 {
		return nil
	}
	recorded, err := d.readBack(ctx)
	if err != nil {
		return err
	}
	if err := d.observe(ctx, d.open(), d.Cache); err != nil {
		return err
	}
	for _, it := range d.open() {
		it.seen.Recorded = recorded[it.before.UID]
	}
	if err := d.observeLeaving(ctx); err != nil {
		return err
	}
	if err := d.observeEvicted(ctx); err != nil {
		return err
	}
	d.readTerminatesFirst(ctx)
	next, err := d.decide(ctx)
	if err != nil {
		return err
	}
	for it, r := range next {
		it.after = r
	}
	if err := d.saveRecords(ctx); err != nil {
		return d.dropConflicts(err)
	}
	d.evictedAreNoted()
	overtaken, failure := d.act(ctx, d.open())
	failure = d.dropConflicts(errors.Join(failure, d.retryConflicts(ctx, overtaken)))
	d.result.Undiagnosed = errors.Join(d.diagnose(ctx), d.reportRelabelledClaims(ctx))
	return failure
}

// open returns the removals that are not complete and that this version supports.
func (d *drive) open() []*item {
	var open []*item
	for _, it := range d.items {
		if it.known && it.before.Phase != v1alpha1.RemovalGone {
			open = append(open, it)
		}
	}
	return open
}

// wake requests a reconcile for when EC2 may be queried again, and for when the removal becomes stalled.
func (d *drive) wake(it *item) {
	d.wakeForBudgets(it)
	if !it.known || it.after.Phase == v1alpha1.RemovalHeld || it.after.Phase == v1alpha1.RemovalGone || it.after.Drained() {
		return
	}
	if it.seen.Cloud.Open && (it.after.Phase == v1alpha1.RemovalVerifyingCloud || asksFor[AskEC2](it)) {
		at := d.result.AskedAt.Add(d.pause(firstQuestion(it.after)))
		if !at.After(d.Now) {
			at = d.Now.Add(max(d.AskEvery, conflictRetry)) // it was due, and something else came first
		}
		d.wakeAt(at)
	}
	switch it.after.Reason {
	case ReasonGrace:
		d.wakeAt(it.after.RecordedAt.Add(d.Pace.Grace))
	case ReasonPodsPending, ReasonControllerNotReady, ReasonOtherNodeSync, ReasonRecordFull:
		// There is no watch on pods, leases and the record, and the Plan must see which objects move to another
		// NodeSync.
		d.wakeAt(d.Now.Add(podReadInterval(it.after, d.Now)))
	}
	d.wakeForReplacing(it)
	d.wakeForDiagnosis(it)
	// An overdue stall is not reported yet because the reconcile failed before, and is retried anyway.
	if at := it.after.LastProgress.Add(d.StallAfter); it.after.Stalled == nil && !waitsByReason(it.after.Reason) && at.After(d.Now) {
		d.wakeAt(at)
	}
}

// wakeForBudgets requests a reconcile for when disruption budgets are restored later.
func (d *drive) wakeForBudgets(it *item) {
	if slices.ContainsFunc(it.actions, func(a Action) bool { restore, is := a.(RestoreGrowth); return is && restore.Paced }) {
		d.wakeAt(d.Now.Add(podReadInterval(it.after, d.Now)))
	}
}

// wakeForReplacing requests a reconcile for when to renew the budget that lets Karpenter replace nodes, to check which
// nodes it does not replace, or when a window of the pool's budgets may open.
func (d *drive) wakeForReplacing(it *item) {
	r := it.seen.Replacing
	switch {
	case it.after.Reason == ReasonFrozen && it.seen.Frozen == "":
		d.wakeAt(d.Now.Add(time.Minute))
	case it.after.Phase != v1alpha1.RemovalDraining || !it.seen.replaces() || len(it.seen.untouched()) == 0:
	case (r == nil || r.Nodes == 0) && it.seen.disrupting() > 0: // a watch event reports when it is gone
	case r == nil || r.Nodes == 0:
		d.wakeAt(d.Now.Add(podReadInterval(it.after, d.Now)))
	default:
		if !r.Until.IsZero() {
			d.wakeAt(r.Until.Add(-renewBefore))
		}
		if it.seen.disrupting() == 0 {
			d.wakeAt(it.after.LastProgress.Add(idleTimeout))
			if it.seen.isIdle(it.after, d.Now) {
				d.wakeAt(d.Now.Add(podReadInterval(it.after, d.Now)))
			}
		}
	}
}

func (d *drive) wakeAt(at time.Time) {
	if at.Before(d.Now) {
		at = d.Now
	}
	if d.result.Again.IsZero() || at.Before(d.result.Again) {
		d.result.Again = at
	}
}

// readTerminatesFirst finds out, if it matters, whether Karpenter terminates nodes in reserved capacity before their
// replacements exist.
func (d *drive) readTerminatesFirst(ctx context.Context) {
	reserved := func(c Claim) bool { return c.Reserved }
	if d.TerminatesFirst == nil || !d.Pace.Replaces || !slices.ContainsFunc(d.open(), func(it *item) bool { return slices.ContainsFunc(it.seen.NodeClaims, reserved) }) {
		return
	}
	if d.terminatesFirst = d.TerminatesFirst(ctx); !d.terminatesFirst {
		return
	}
	for _, it := range d.open() {
		it.seen.TerminatesFirst = true
	}
}

// terminatedFirst names the nodes of a pool that Karpenter terminates before their replacements exist; empty if there
// are none.
func (o Observation) terminatedFirst() string {
	if !o.TerminatesFirst || !o.replaces() {
		return ""
	}
	var nodes []string
	for _, c := range o.untouched() {
		if c.Reserved {
			nodes = append(nodes, cmp.Or(c.Node, c.Name))
		}
	}
	return plan.TerminatedFirst(nodes)
}

// mayAsk reports whether EC2 may be queried now. first reports whether a removal has no response yet. If the last query
// is in the future, the clock was set back since.
func (d *drive) mayAsk(first bool) bool {
	return d.AskedAt.IsZero() || d.Now.Before(d.AskedAt) || !d.Now.Before(d.AskedAt.Add(d.pause(first)))
}

// pause returns the minimum interval between two queries to EC2. AskEvery applies to repeated queries: the first one
// for a removal does not wait because another removal was queried a moment ago.
func (d *drive) pause(first bool) time.Duration {
	if first {
		return min(conflictRetry, d.AskEvery)
	}
	return d.AskEvery
}

// firstQuestion reports whether a removal waits for the first response from EC2 after its last NodeClaim is gone.
func firstQuestion(r v1alpha1.Removal) bool { return r.Reason == ReasonAskingEC2 }

// queryEC2 queries EC2 once for all open removals.
func (d *drive) queryEC2(ctx context.Context) {
	d.result.AskedAt = d.Now
	query := cloud.Query{Cluster: d.Cluster}
	var about []*item
	for _, it := range d.open() {
		if it.before.Kind != render.NodePool || it.after.Phase == v1alpha1.RemovalHeld && it.seen.Hold != nil && it.seen.Exists {
			continue
		}
		about = append(about, it)
		if !it.taken {
			query.Pools = append(query.Pools, it.before.Name)
		}
		for id := range it.seen.Noted {
			query.ProviderIDs = append(query.ProviderIDs, id)
		}
	}
	var found []cloud.Instance
	silence := "the cluster's region is unknown"
	if d.EC2 != nil {
		var err error
		if found, err = d.EC2.Instances(ctx, query); err == nil {
			silence = ""
		} else {
			silence = err.Error()
		}
	}
	absent := map[string]Absence{}
	for _, it := range about {
		it.seen.NoResponse = silence
		if silence == "" {
			it.seen.EC2 = answer(it, found)
			it.seen.Absent = absences(d.result.Absent, it.seen.Noted, it.seen.EC2.shown(), d.Now)
			maps.Copy(absent, it.seen.Absent)
		} else {
			it.seen.Shown = answer(it, found).Instances
		}
	}
	if silence == "" {
		d.result.Absent = absent
	}
}

// shown returns the provider IDs in an answer.
func (a Answer) shown() map[string]bool {
	shown := map[string]bool{}
	for _, i := range a.Instances {
		shown[i.ProviderID] = true
	}
	return shown
}

// answer selects the instances of one removal from EC2's response: those with the tag of its pool, unless another pool
// has that name by now, and those noted.
func answer(it *item, found []cloud.Instance) *Answer {
	noted := map[string]string{}
	for providerID := range it.seen.Noted {
		if _, id, err := cloud.ParseProviderID(providerID); err == nil {
			noted[id] = providerID
		}
	}
	a := &Answer{}
	for _, i := range found {
		providerID, known := noted[i.ID]
		if !known {
			providerID = i.ProviderID()
		}
		if known || (i.Pool == it.before.Name && !it.taken) {
			a.Instances = append(a.Instances, Instance{ProviderID: providerID, State: i.State, Gone: i.Gone()})
		}
	}
	return a
}
