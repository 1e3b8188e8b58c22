package removal

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// RecordName returns the name of the ConfigMap that holds the records of a NodeSync's open removals, and of what
// earlier ones have left, with each object's UID as key. It exists while there are any.
func RecordName(nodeSync string) string { return v1alpha1.ObjectName("plumbline-", nodeSync) }

// holds describes the content of the ConfigMap.
const holds = "the record of removals"

// record is the state of one removal that must survive a crash.
type record struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Instances are all provider IDs ever seen, with the last state that EC2 reported for each: shown, or shown
	// shutting down.
	Instances map[string]Seen `json:"instances,omitempty"`
	// Growth is what was overwritten to stop growth.
	Growth Growth `json:"growth"`
	// NodeClaims is their number when the removal was recorded.
	NodeClaims int `json:"nodeClaims,omitempty"`
	// Workloads are those whose pods were evicted, the latest last.
	Workloads []Workload `json:"workloads,omitempty"`
	// Left are the pods that the removal has left without a node. If set, the rest of the record is empty.
	Left []LeftPod `json:"left,omitempty"`
	// Leaving are the NodeClaims that were terminating when the removal was reverted. While one of them exists, the
	// rest of the record is empty except for Workloads.
	Leaving []types.UID `json:"leaving,omitempty"`
}

// over reports whether the removal is complete or reverted; the record then only contains what it has left.
func (r record) over() bool { return r.Left != nil || r.Leaving != nil }

// Growth is how far Karpenter may grow a pool.
type Growth struct {
	// CPU is spec.limits.cpu.
	CPU any `json:"cpu,omitempty"`
	// Replicas is spec.replicas of a static pool.
	Replicas *int64 `json:"replicas,omitempty"`
	// Budgets is spec.disruption.budgets; nil until Karpenter is about to replace nodes, which overwrites them.
	Budgets []any `json:"budgets,omitempty"`
}

// status returns the copy for the status: if the NodeSync is deleted in the foreground, the API server deletes the
// record immediately.
func (g Growth) status() *v1alpha1.RemovalGrowth {
	if g.CPU == nil && g.Replicas == nil {
		return nil
	}
	s := &v1alpha1.RemovalGrowth{Replicas: g.Replicas}
	if g.CPU != nil {
		s.CPU = fmt.Sprint(g.CPU)
	}
	return s
}

// or returns g, or the copy from the status if g is empty.
func (g Growth) or(s *v1alpha1.RemovalGrowth) Growth {
	if s == nil || g.CPU != nil || g.Replicas != nil {
		return g
	}
	g.Replicas = s.Replicas
	if s.CPU != "" {
		g.CPU = s.CPU
	}
	return g
}

// records are the records of one NodeSync as read, with the changes to write.
type records struct {
	stored  *corev1.ConfigMap
	entries map[types.UID]record
	changed bool
}

// loadRecords reads a NodeSync's records. It is no error if there are none. It is an error if the ConfigMap of that
// name is not plumbline's.
func loadRecords(ctx context.Context, reader client.Reader, sync *v1alpha1.NodeSync) (*records, error) {
	r := &records{entries: map[types.UID]record{}}
	stored := &corev1.ConfigMap{}
	name := types.NamespacedName{Namespace: sync.Namespace, Name: RecordName(sync.Name)}
	err := reader.Get(ctx, name, stored)
	switch {
	case apierrors.IsNotFound(err):
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("read the record of removals in ConfigMap %s: %w", name, err)
	case !metav1.IsControlledBy(stored, sync):
		return nil, configmap.InTheWay(stored, holds, sync.Name)
	}
	r.stored = stored
	for uid, data := range stored.Data {
		var entry record
		if err := json.Unmarshal([]byte(data), &entry); err != nil {
			return nil, configmap.Unreadable(stored, holds, fmt.Errorf("key %s: %w", uid, err), "the instances and limits of removals in progress")
		}
		r.entries[types.UID(uid)] = entry
	}
	return r, nil
}

// note adds to a removal's entry, and reports whether the removal has waited for that. It never removes anything.
func (r *records) note(it *item, n Note) bool {
	entry, exists := r.entries[it.before.UID]
	if !exists {
		entry = record{
			Kind: it.before.Kind, Name: it.before.Name, Growth: it.growth.or(it.before.Growth),
			NodeClaims: len(it.seen.NodeClaims),
		}
	}
	instances := map[string]Seen{}
	maps.Copy(instances, entry.Instances)
	fresh, marked := false, false
	for _, id := range n.Fresh {
		if _, known := instances[id]; !known {
			instances[id], fresh = "", true
		}
	}
	for _, i := range n.Seen {
		if state := Seen(i.State); state.rank() > instances[i.ProviderID].rank() {
			instances[i.ProviderID], marked = state, true
		}
	}
	if exists && !fresh && !marked && len(n.Workloads) == 0 && n.Budgets == nil {
		return false
	}
	entry.Instances = instances
	if n.Budgets != nil {
		entry.Growth.Budgets = n.Budgets
	}
	entry.Workloads = append(slices.Clone(entry.Workloads), n.Workloads...)
	entry.Workloads = entry.Workloads[max(0, len(entry.Workloads)-maxWorkloads):]
	r.put(it.before.UID, entry)
	return fresh || !exists
}

// workloads returns those of all removals.
func (r *records) workloads() []Workload {
	var all []Workload
	for _, uid := range slices.Sorted(maps.Keys(r.entries)) {
		all = append(all, r.entries[uid].Workloads...)
	}
	return all
}

func (r *records) put(uid types.UID, entry record) { r.entries[uid], r.changed = entry, true }

func (r *records) forget(uid types.UID) {
	if _, exists := r.entries[uid]; exists {
		delete(r.entries, uid)
		r.changed = true
	}
}

// save writes the records if they have changed. The write fails if they were changed since they were read.
func (r *records) save(ctx context.Context, writer client.Writer, sync *v1alpha1.NodeSync) error {
	if !r.changed {
		return nil
	}
	if len(r.entries) == 0 {
		return r.drop(ctx, writer)
	}
	target := configmap.New(sync, RecordName(sync.Name))
	if r.stored != nil {
		if err := configmap.Writable(r.stored, holds); err != nil {
			return err
		}
		target = r.stored.DeepCopy()
	}
	var err error
	if target.Data, err = r.encode(); err != nil {
		return err
	}
	if r.stored == nil {
		err = writer.Create(ctx, target, client.FieldOwner(v1alpha1.FieldManager))
	} else {
		err = writer.Update(ctx, target, client.FieldOwner(v1alpha1.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("write the record of removals in ConfigMap %s/%s: %w", target.Namespace, target.Name, err)
	}
	r.stored, r.changed = target, false
	return nil
}

// drop deletes the ConfigMap in the version that was read.
func (r *records) drop(ctx context.Context, writer client.Writer) error {
	if r.stored == nil {
		return nil
	}
	err := writer.Delete(ctx, r.stored, preconditions(r.stored.UID, r.stored.ResourceVersion))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the record of removals in ConfigMap %s/%s: %w", r.stored.Namespace, r.stored.Name, err)
	}
	r.stored, r.changed = nil, false
	return nil
}

// preconditions returns the preconditions of a delete: this object, in the version that was seen.
func preconditions(uid types.UID, resourceVersion string) client.Preconditions {
	return client.Preconditions{UID: &uid, ResourceVersion: &resourceVersion}
}

// readBack reads the NodeSync and the record past the cache, and returns the removals that are in both. A reverted
// removal is no longer in the status, even if the cache still contains it. If the NodeSync's spec has changed since,
// readBack returns no removals, because this reconcile uses an outdated policy.
func (d *drive) readBack(ctx context.Context) (map[types.UID]bool, error) {
	sync := &v1alpha1.NodeSync{}
	if err := d.Home.Get(ctx, client.ObjectKeyFromObject(d.Sync), sync); err != nil {
		return nil, fmt.Errorf("read the removals in the status of NodeSync %s/%s: %w", d.Sync.Namespace, d.Sync.Name, err)
	}
	records, err := loadRecords(ctx, d.Home, d.Sync)
	if err != nil {
		return nil, err
	}
	d.records = records
	current := sync.UID == d.Sync.UID && sync.Generation == d.Sync.Generation &&
		sync.DeletionTimestamp.IsZero() == d.Sync.DeletionTimestamp.IsZero()
	recorded := map[types.UID]bool{}
	for _, it := range d.open() {
		_, noted := records.entries[it.before.UID]
		recorded[it.before.UID] = current && noted && inStatus(sync, it.before) && d.counted(sync, it.before)
	}
	if !current {
		d.wakeAt(d.Now.Add(conflictRetry))
	}
	return recorded, nil
}

// counted reports whether a removal that counts for later ones is in status.recentRemovals.
func (d *drive) counted(sync *v1alpha1.NodeSync, r v1alpha1.Removal) bool {
	_, written := plan.GuardAllowedAt(sync.Status.RecentRemovals, &r)
	return written || !d.Counts[r.UID]
}

func inStatus(sync *v1alpha1.NodeSync, r v1alpha1.Removal) bool {
	for _, written := range sync.Status.Removals {
		if written.UID == r.UID && written.Kind == r.Kind && written.Name == r.Name {
			return true
		}
	}
	return false
}

// saveRecords writes the notes of all removals of this reconcile in one write. It does not overwrite another client's
// change: the next reconcile reads that first.
func (d *drive) saveRecords(ctx context.Context) error {
	noted := false
	for _, it := range d.open() {
		for _, a := range it.actions {
			switch a := a.(type) {
			case Note:
				noted = d.records.note(it, a) || noted
				it.after.Growth = d.records.entries[it.before.UID].Growth.status()
			case Forget:
				if err := d.forget(ctx, it); err != nil {
					return err
				}
			}
		}
	}
	if err := d.records.save(ctx, d.Home, d.Sync); err != nil {
		return err
	}
	if noted {
		d.wakeAt(d.Now)
	}
	return nil
}

// Unrecord drops the records of removals that Git has reverted: the overwritten values are restored, and the next
// removal of the same object starts from the beginning. What no commit can revert stays recorded: the terminating
// NodeClaims, and the pods that these evict. A conflict with another client's write is returned as an error; the next
// reconcile drops the record. Unrecord returns the number of NodeClaims in each record.
func Unrecord(ctx context.Context, w World, p Pass, back ...v1alpha1.Removal) (map[types.UID]Unrecorded, error) {
	if len(back) == 0 {
		return nil, nil
	}
	d := newDrive(w, p)
	var err error
	if d.records, err = loadRecords(ctx, w.Home, p.Sync); err != nil {
		return nil, err
	}
	found := map[types.UID]Unrecorded{}
	for _, r := range back {
		entry := d.records.entries[r.UID]
		found[r.UID] = Unrecorded{NodeClaims: entry.NodeClaims}
		d.records.forget(r.UID)
		if r.Kind != render.NodePool || p.Pace.All {
			continue
		}
		of, err := d.claimsOf(ctx, r.Name)
		if err != nil {
			return nil, err
		}
		// A removal that was reverted and then started again may have left something, too.
		left := d.records.entries[revertedKey(r.UID)]
		left.Kind, left.Name = r.Kind, r.Name
		left.Workloads = join(left.Workloads, entry.Workloads)
		stay := map[string]bool{}
		terminating := 0
		for _, c := range of[r.Name] {
			if owner, _ := poolOf(c); owner != r.UID {
				continue
			}
			claim := claimOf(c)
			if claim.leaving() && !slices.Contains(left.Leaving, c.UID) {
				left.Leaving = append(left.Leaving, c.UID)
			}
			switch {
			case claim.Deleting.IsZero():
				stay[claim.ProviderID] = true
			case !entry.has(claim.ProviderID):
				terminating++
			}
		}
		found[r.UID] = Unrecorded{NodeClaims: entry.NodeClaims, Terminated: terminating + entry.without(stay)}
		if err := d.recordLeft(ctx, revertedKey(r.UID), left); err != nil {
			return nil, err
		}
	}
	return found, d.records.save(ctx, w.Home, p.Sync)
}

// Unrecorded describes the NodeClaims in the record of a reverted removal.
type Unrecorded struct {
	// NodeClaims is their number when the removal was recorded.
	NodeClaims int
	// Terminated is how many of those are terminating or gone, including those that the pool launched before its growth
	// was stopped.
	Terminated int
}

func (r record) has(providerID string) bool {
	_, has := r.Instances[providerID]
	return has
}

// without returns the number of recorded instances that are not in some.
func (r record) without(some map[string]bool) int {
	n := 0
	for id := range r.Instances {
		if !some[id] {
			n++
		}
	}
	return n
}

// revertedKey returns the key for what a reverted removal has left. It differs from the UID because the object may be
// removed from Git again.
func revertedKey(uid types.UID) types.UID { return uid + ".reverted" }

// recordLeft records what a reverted removal has left: terminating NodeClaims, and once none of them is left, pods.
func (d *drive) recordLeft(ctx context.Context, key types.UID, left record) error {
	if len(left.Leaving) == 0 {
		pods, err := d.leftOf(ctx, left.Workloads)
		if err != nil {
			return err
		}
		left = record{Kind: left.Kind, Name: left.Name, Left: append(left.Left, pods...)}
	}
	if left.over() {
		d.records.put(key, left)
	} else {
		d.records.forget(key)
	}
	return nil
}

// observeLeaving reads, past the cache, the terminating NodeClaims of removals that this reconcile does not drive:
// those that were reverted or are about to be. They count against removal.maxUnavailable while they exist.
func (d *drive) observeLeaving(ctx context.Context) error {
	d.leaving = map[types.UID][]types.UID{}
	pools := d.undrivenPools()
	if len(pools) == 0 || d.Pace.All {
		return nil
	}
	of, err := d.claimsOf(ctx, pools...)
	if err != nil {
		return err
	}
	for _, uid := range slices.Sorted(maps.Keys(d.records.entries)) {
		entry := d.records.entries[uid]
		for _, c := range of[entry.Name] {
			owner, _ := poolOf(c)
			if claimOf(c).leaving() && (slices.Contains(entry.Leaving, c.UID) || d.isOpenUndriven(uid) && owner == uid) {
				d.leaving[uid] = append(d.leaving[uid], c.UID)
			}
		}
		if entry.Leaving == nil || len(d.leaving[uid]) > 0 {
			continue
		}
		entry.Leaving = nil
		if err := d.recordLeft(ctx, uid, entry); err != nil {
			return err
		}
	}
	return nil
}

// undrivenPools returns the pools whose NodeClaims may be terminating because of a removal that this reconcile does not
// drive.
func (d *drive) undrivenPools() (pools []string) {
	for uid, entry := range d.records.entries {
		if entry.Kind == render.NodePool && (entry.Leaving != nil || d.isOpenUndriven(uid)) {
			pools = append(pools, entry.Name)
		}
	}
	return pools
}

// isOpenUndriven reports whether a record belongs to a removal that is neither over nor driven in this reconcile.
func (d *drive) isOpenUndriven(uid types.UID) bool {
	return !d.records.entries[uid].over() && !slices.ContainsFunc(d.items, func(it *item) bool { return it.before.UID == uid })
}

// claimsOf reads the NodeClaims of some pools past the cache, by pool.
func (d *drive) claimsOf(ctx context.Context, pools ...string) (map[string][]*karpv1.NodeClaim, error) {
	l := &look{reader: d.Live, claims: map[string][]*karpv1.NodeClaim{}}
	for some := range slices.Chunk(pools, namesAtOnce) {
		if err := l.readClaims(ctx, some); err != nil {
			return nil, err
		}
	}
	return l.claims, nil
}

// undrivenShares returns the shares of removals that are not driven in the pace of those that are, except for
// NodeClaims that count for the latter anyway.
func (d *drive) undrivenShares(open []*item) []share {
	counted := map[types.UID]bool{}
	for _, it := range open {
		for _, c := range it.seen.NodeClaims {
			counted[c.UID] = !it.notStarted(d.records.entries[it.before.UID])
		}
	}
	var all []share
	for _, uid := range slices.Sorted(maps.Keys(d.leaving)) {
		s := share{removal: d.records.entries[uid].Kind + "/" + d.records.entries[uid].Name}
		for _, claim := range d.leaving[uid] {
			if !counted[claim] {
				s.leaving++
			}
		}
		all = append(all, s)
	}
	return all
}

// A ConfigMap can contain up to 1 MiB (MaxSecretSize in k8s.io/kubernetes pkg/apis/core/validation).
const (
	// recordMost is the maximum size in bytes of the record of a NodeSync's removals.
	recordMost = 1000 << 10
	// budgetsMost is the size in bytes up to which the record accepts disruption budgets. The rest is for the instances
	// and workloads of the removals that have started.
	budgetsMost = 768 << 10
	// budgetsEach is the maximum size in bytes of the disruption budgets of one pool. If a pool has more, or too many,
	// its nodes are terminated without replacement.
	budgetsEach = 64 << 10
)

// space is the space that is left in the record for disruption budgets.
type space struct {
	left int
	// holder is a removal whose budgets are in the record; empty if there is none.
	holder string
}

// space returns the space that is left, given what is stored.
func (r *records) space() space {
	s := space{left: budgetsMost}
	if r.stored != nil {
		for _, data := range r.stored.Data {
			s.left -= len(data)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(r.entries)) {
		if entry := r.entries[uid]; entry.Growth.Budgets != nil {
			s.holder = entry.Kind + "/" + entry.Name
			break
		}
	}
	return s
}

// blockedBy names a removal that takes up the space which the budgets of another one need; empty if there is enough.
// One removal always gets the space, so they proceed at least one by one.
func (s *space) blockedBy(it *item) string {
	if it.seen.Budgets == nil || it.bytes <= s.left {
		return ""
	}
	return s.holder
}

// subtract subtracts what a removal is about to note. If the removal waits, so do those after it: otherwise they would
// take the space for which it waits.
func (s *space) subtract(it *item, next v1alpha1.Removal) {
	if next.Reason == ReasonRecordFull {
		s.left = 0
	}
	for _, a := range it.actions {
		if note, is := a.(Note); is && note.Budgets != nil {
			s.left -= it.bytes
			if s.holder == "" {
				s.holder = it.before.Kind + "/" + it.before.Name
			}
		}
	}
}

// sizeOfBudgets returns the size of budgets in the record in bytes.
func sizeOfBudgets(budgets []any) int {
	data, err := json.Marshal(budgets)
	if err != nil {
		return math.MaxInt32 // it cannot be recorded
	}
	return len(data)
}

// encode returns the entries as they are stored. If they are too large, each keeps only the latest half of its
// workloads, and so on: the removal then waits for the pods of fewer workloads, but proceeds.
func (r *records) encode() (map[string]string, error) {
	for most := maxWorkloads; ; most /= 2 {
		data, size := map[string]string{}, 0
		for uid, entry := range r.entries {
			entry.Workloads = entry.Workloads[max(0, len(entry.Workloads)-most):]
			encoded, err := json.Marshal(entry)
			if err != nil {
				return nil, fmt.Errorf("encode the record of %s/%s: %w", entry.Kind, entry.Name, err)
			}
			data[string(uid)] = string(encoded)
			size += len(encoded)
		}
		if size <= recordMost || most == 0 {
			return data, nil
		}
	}
}
