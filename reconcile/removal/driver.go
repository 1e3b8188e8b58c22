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

// World is all that a teardown reads and writes.
type World struct {
	// Cache reads what watches have delivered.
	Cache client.Reader
	// Live reads past it.
	Live client.Reader
	// Writer writes to the API server.
	Writer client.Writer
	// Home is where the NodeSync and the record of its removals are: they need not be in the cluster of the nodes.
	Home Home
	// EC2 is asked about instances; nil if the region is not known.
	EC2 EC2
	// StillLeader returns an error when writing is no longer ours to do. It is
	// asked before each write that ends something.
	StillLeader func(context.Context) error
	// RecordsGo reports whether the namespace of the records is being deleted, and with it
	// the right to read them.
	RecordsGo bool
}

// Home reads past the cache, and writes to the API server.
type Home struct {
	client.Reader
	client.Writer
}

// EC2 is asked about instances.
type EC2 = rollout.EC2

// Pass is what a reconcile brings along.
type Pass struct {
	Now time.Time
	// Sync is the NodeSync as the reconcile has it.
	Sync *v1alpha1.NodeSync
	// Cluster is the name by which Karpenter tags instances.
	Cluster string
	// StallAfter is how long a removal may stand still.
	StallAfter time.Duration
	// DiagnosedAt is the last Result's: when what keeps nodes was looked for.
	DiagnosedAt time.Time
	// AskEvery is the least time between two questions to EC2, and AskedAt when
	// the last one was.
	AskEvery time.Duration
	AskedAt  time.Time
	// Absent is the last Result's: instances that EC2's answers lack.
	Absent map[string]Absence
	// Evicted are the last Result's: NodeClaims that end and whose pods are noted.
	Evicted map[types.UID]bool

	Controller Gate
	Cloud      Gate
	// Arrivals is the gate of one removal: what came with its revision.
	Arrivals func(v1alpha1.Removal) Gate
	// Successor is likewise: whether a NodePool that stays could take the pods.
	Successor func(v1alpha1.Removal) Gate
	// GoesTo names the NodeSync that an object goes to, or has gone to, as namespace/name;
	// empty if it stays ours.
	GoesTo func(*unstructured.Unstructured) string
	// Unremoved says of objects that are not removed, though they have left Git, why that is
	// and what to do, by kind/name.
	Unremoved map[string]string
	// Leader reports whether a pod of Karpenter's controller holds its lease. It is
	// asked only where a NodeClaim is about to be ended.
	Leader func(context.Context) Gate
	// DaemonSets are those of CSI drivers and CNI plugins. They are asked for only where a volume
	// keeps a node.
	DaemonSets func(context.Context) plan.DaemonSets
	// Log is the end of the log of Karpenter's controller. It is asked for only where EC2 does not take a
	// termination; nil if nobody reads it.
	Log func(context.Context) string
	// EndsFirst reports whether Karpenter ends nodes in reserved capacity before their replacements are there. It
	// is asked for only where a pool that Karpenter replaces has such; nil if it does not.
	EndsFirst func(context.Context) bool
	// Pace is how fast NodeClaims are ended.
	Pace Pace
	// Frozen is why no node may be removed now; empty if it may.
	Frozen string
	// Keeps reports whether only the nodes go, and the objects stay.
	Keeps bool
	// Holds are the removals that a person has to release, and Queued are those that wait for others to complete, each with
	// a message.
	Holds  map[types.UID]Hold
	Queued map[types.UID]string
	// Counts are the removals that count for later ones: each starts once status.recentRemovals, read back, has it.
	Counts map[types.UID]bool
}

// DriveResult is the result of a reconcile of all removals. It is valid even if there
// was an error: what an earlier removal has gained is not lost by a later one.
type DriveResult struct {
	// Removals are all that were given, in their order, as they are to be
	// written. Those that are Gone may be left out of the status.
	Removals []v1alpha1.Removal
	// AskedAt is when EC2 was asked last, and Absent what its answers lack, by
	// provider ID, for the next Pass.
	AskedAt time.Time
	Absent  map[string]Absence
	// Evicted are the NodeClaims that end and whose pods are noted, by UID, for the next Pass.
	Evicted map[types.UID]bool
	// DiagnosedAt is when what keeps nodes was looked for last, for the next Pass.
	DiagnosedAt time.Time
	// Again is when the next reconcile is wanted, beyond what watches bring; zero
	// if nothing but a watch is.
	Again time.Time
	// Writes are the writes to the cluster, for events.
	Writes []Write
	// Undiagnosed says what could not be read for a diagnosis. It stops nothing.
	Undiagnosed error
}

// Write is one thing that was done for a removal.
type Write struct {
	Kind, Name string
	Action     Action
}

// soon is when a reconcile looks again after another writer was faster.
const soon = time.Second

// Drive takes each removal one step further: it observes, has Next decide, asks
// what Next wants to know, writes the record, and acts.
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
		World: w, Pass: p, evicted: map[types.UID]bool{}, result: DriveResult{AskedAt: p.AskedAt, Absent: p.Absent, Evicted: p.Evicted, DiagnosedAt: p.DiagnosedAt},
		pods: podReader{reader: w.Live, read: map[podsOf][]ownedPod{}, on: map[types.UID][]string{}, empty: map[string]bool{}, needs: map[string]corev1.ResourceList{}, stays: map[string]string{}, now: p.Now},
	}
}

// drive is one Drive in progress.
type drive struct {
	World
	Pass
	items   []*item
	records *records
	result  DriveResult
	pods    podReader
	// evicted are the NodeClaims of the Result's Evicted, before their pods are noted.
	evicted map[types.UID]bool
	// leaving are NodeClaims that end and are of removals that are not driven, by their record.
	leaving map[types.UID][]types.UID
	// endsFirst is what EndsFirst has answered.
	endsFirst bool
	// leader is what Leader has answered in this reconcile.
	leader *Gate
}

// item is one removal on its way through a reconcile.
type item struct {
	before, after v1alpha1.Removal
	seen          Observation
	actions       []Action
	// known reports whether the object is of a kind that is removed.
	known bool
	// taken reports whether the object's name belongs to another object by now.
	taken bool
	// growth is what stopping growth will overwrite.
	growth Growth
	// budgets are the pool's disruption budgets without those of ours, and paces reports that there are such.
	budgets []any
	paces   bool
	// bytes is how much room the budgets of before the removal take in the record.
	bytes int
	// labels are those of the pool's template, with ours while it is being replaced.
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
	d.askWhatEndsFirst(ctx)
	next, err := d.decide(ctx)
	if err != nil {
		return err
	}
	for it, r := range next {
		it.after = r
	}
	if err := d.saveRecords(ctx); err != nil {
		return d.lookAgain(err)
	}
	d.evictedAreNoted()
	overtaken, failure := d.act(ctx, d.open())
	failure = d.lookAgain(errors.Join(failure, d.actAgain(ctx, overtaken)))
	d.result.Undiagnosed = errors.Join(d.diagnose(ctx), d.nameStrays(ctx))
	return failure
}

// open returns the removals that are not complete and that this version
// can carry out.
func (d *drive) open() []*item {
	var open []*item
	for _, it := range d.items {
		if it.known && it.before.Phase != v1alpha1.RemovalGone {
			open = append(open, it)
		}
	}
	return open
}

// wake asks for a reconcile when EC2 may be asked again, and when the removal would
// have stood still for too long.
func (d *drive) wake(it *item) {
	d.wakeForBudgets(it)
	if !it.known || it.after.Phase == v1alpha1.RemovalHeld || it.after.Phase == v1alpha1.RemovalGone || it.after.Drained() {
		return
	}
	if it.seen.Cloud.Open && (it.after.Phase == v1alpha1.RemovalVerifyingCloud || asksFor[AskEC2](it)) {
		at := d.result.AskedAt.Add(d.pause(firstQuestion(it.after)))
		if !at.After(d.Now) {
			at = d.Now.Add(max(d.AskEvery, soon)) // it was due, and something came before it
		}
		d.wakeAt(at)
	}
	switch it.after.Reason {
	case ReasonGrace:
		d.wakeAt(it.after.RecordedAt.Add(d.Pace.Grace))
	case ReasonPodsPending, ReasonControllerNotReady, ReasonOtherNodeSync, ReasonRecordFull:
		// Nothing watches pods, leases and the record, and the Plan is to see what goes elsewhere.
		d.wakeAt(d.Now.Add(patience(it.after, d.Now)))
	}
	d.wakeForReplacing(it)
	d.wakeForDiagnosis(it)
	// A stall that is overdue was not seen: the reconcile failed before, and is repeated
	// for that.
	if at := it.after.LastProgress.Add(d.StallAfter); it.after.Stalled == nil && !inLine(it.after.Reason) && at.After(d.Now) {
		d.wakeAt(at)
	}
}

// wakeForBudgets asks for a reconcile when disruption budgets are to be given back later.
func (d *drive) wakeForBudgets(it *item) {
	if slices.ContainsFunc(it.actions, func(a Action) bool { restore, is := a.(RestoreGrowth); return is && restore.Paced }) {
		d.wakeAt(d.Now.Add(patience(it.after, d.Now)))
	}
}

// wakeForReplacing asks for a reconcile when what Karpenter may replace is to be lent again, what it does
// not replace is to be looked for, or a window of the pool's budgets may have opened.
func (d *drive) wakeForReplacing(it *item) {
	r := it.seen.Replacing
	switch {
	case it.after.Reason == ReasonFrozen && it.seen.Frozen == "":
		d.wakeAt(d.Now.Add(time.Minute))
	case it.after.Phase != v1alpha1.RemovalDraining || !it.seen.replaces() || len(it.seen.untouched()) == 0:
	case (r == nil || r.Nodes == 0) && it.seen.disrupting() > 0: // a watch tells when it has gone
	case r == nil || r.Nodes == 0:
		d.wakeAt(d.Now.Add(patience(it.after, d.Now)))
	default:
		if !r.Until.IsZero() {
			d.wakeAt(r.Until.Add(-renewed))
		}
		if it.seen.disrupting() == 0 {
			d.wakeAt(it.after.LastProgress.Add(idle))
			if it.seen.idles(it.after, d.Now) {
				d.wakeAt(d.Now.Add(patience(it.after, d.Now)))
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

// askWhatEndsFirst asks, where it matters, whether Karpenter ends nodes in reserved capacity before their
// replacements are there.
func (d *drive) askWhatEndsFirst(ctx context.Context) {
	reserved := func(c Claim) bool { return c.Reserved }
	if d.EndsFirst == nil || !d.Pace.Replaces || !slices.ContainsFunc(d.open(), func(it *item) bool { return slices.ContainsFunc(it.seen.NodeClaims, reserved) }) {
		return
	}
	if d.endsFirst = d.EndsFirst(ctx); !d.endsFirst {
		return
	}
	for _, it := range d.open() {
		it.seen.EndsFirst = true
	}
}

// first names the nodes of a pool that Karpenter ends before their replacements are there; empty if it
// ends none so.
func (o Observation) first() string {
	if !o.EndsFirst || !o.replaces() {
		return ""
	}
	var nodes []string
	for _, c := range o.untouched() {
		if c.Reserved {
			nodes = append(nodes, cmp.Or(c.Node, c.Name))
		}
	}
	return plan.EndFirst(nodes)
}

// mayAsk reports whether EC2 may be asked now, where first reports whether a removal has had no answer yet. A last
// question in the future was asked before the clock was put back.
func (d *drive) mayAsk(first bool) bool {
	return d.AskedAt.IsZero() || d.Now.Before(d.AskedAt) || !d.Now.Before(d.AskedAt.Add(d.pause(first)))
}

// pause is the least time between two questions to EC2. AskEvery is for asking again: the first question of a removal
// does not wait for it because another removal was asked about a moment ago.
func (d *drive) pause(first bool) time.Duration {
	if first {
		return min(soon, d.AskEvery)
	}
	return d.AskEvery
}

// firstQuestion reports whether a removal waits for its first answer from EC2 since its last NodeClaim is gone.
func firstQuestion(r v1alpha1.Removal) bool { return r.Reason == ReasonAskingEC2 }

// ask asks EC2 once about all open removals.
func (d *drive) ask(ctx context.Context) {
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
		it.seen.Silence = silence
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

// shown are the provider IDs in an answer.
func (a Answer) shown() map[string]bool {
	shown := map[string]bool{}
	for _, i := range a.Instances {
		shown[i.ProviderID] = true
	}
	return shown
}

// answer picks what EC2 says about one removal: what bears its pool's tag,
// unless another pool has that name by now, and what was noted.
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
