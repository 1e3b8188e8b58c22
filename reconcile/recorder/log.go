package recorder

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// logState is what the loop knows about the record of one NodeSync: where to continue, and what was open when this
// leader started.
type logState struct {
	of owner
	// next is the number of the next Record.
	next int
	// open are the Records of NodeClaims that were terminating when the last leader wrote.
	open map[claimKey]numbered
	// late are the lines of those of them that were deleted while there was no leader.
	late map[int]string
	// until is the time up to which everything is recorded; zero if nothing is.
	until metav1.Time
	// gap is the time since then, in which nothing is recorded; its To is zero while nothing is watched.
	gap Gap
}

// claimKey identifies a NodeClaim, even if another one has the same name.
type claimKey struct {
	name    string
	created int64
}

type numbered struct {
	seq    int
	record Record
}

func keyOf(name string, created metav1.Time) claimKey { return claimKey{name, created.Unix()} }

// covered reports whether terminations are being recorded now.
func (b *logState) covered() bool { return b.gap.From.IsZero() || !b.gap.To.IsZero() }

// due reports whether something must be written although nothing was terminated.
func (b *logState) due(now time.Time) bool {
	return b.covered() && (!b.gap.To.IsZero() || now.Sub(b.until.Time) >= heartbeat)
}

func byName(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// load reads where the records of the last leader continue.
func (r *Recorder) load(ctx context.Context) error {
	books := map[types.NamespacedName]*logState{}
	err := each(ctx, r.Uncached, r.Namespace, func(of owner, object *corev1.ConfigMap) {
		r.cacheAll(of, object)
		b := books[of.NamespacedName]
		if b == nil || b.of != of {
			b = &logState{of: of, open: map[claimKey]numbered{}}
			books[of.NamespacedName] = b
		}
		if until := untilOf(object); until.After(b.until.Time) {
			b.until = metav1.NewTime(until)
		}
		for _, line := range parseSegment(object.Data[recordsKey]) {
			seq, record, err := parse(line)
			if err != nil {
				continue // another client wrote it
			}
			b.next = max(b.next, seq+1)
			if record.Gone.IsZero() {
				b.open[keyOf(record.NodeClaim, record.Created)] = numbered{seq, record}
			}
		}
	})
	if err != nil {
		return err
	}
	for _, b := range books {
		b.gap.From = b.until
	}
	r.logs = books
	return nil
}

// begin closes the gaps of the time without a leader, as soon as NodeClaims are watched or there are none: NodeClaims
// that were terminating then, and are gone, were deleted in the gap. It also creates the logs of NodeSyncs that have
// none.
func (r *Recorder) begin(ctx context.Context, heard bool, all map[types.UID]termination) error {
	r.beginLogs()
	waiting := false
	for _, b := range r.logs {
		waiting = waiting || !b.covered()
	}
	if !waiting {
		return nil
	}
	present, err := r.present(ctx)
	if err != nil || !heard && len(present) > 0 {
		return err
	}
	for _, e := range all {
		present[keyOf(e.facts.NodeClaim, e.facts.Created)] = true // the watch has seen it, gone or not
	}
	now := metav1.NewTime(r.Now()).Rfc3339Copy()
	for _, b := range r.logs {
		if b.covered() {
			continue
		}
		late := map[int]string{}
		for key, open := range b.open {
			if present[key] {
				continue
			}
			line, err := missedRecord(open.record, now).format(open.seq)
			if err != nil {
				return err
			}
			late[open.seq] = line
		}
		b.late, b.gap.To = late, now
	}
	return nil
}

// missedRecord returns the Record of a NodeClaim that was terminating, and was deleted while there was no leader.
func missedRecord(record Record, now metav1.Time) Record {
	record.Gone, record.Late = now, true
	if record.Cause == ByHand {
		record.Cause, record.Detail, record.ByRevision = Unknown, "its termination was not observed", false
	}
	return record
}

// beginLogs creates the log of each NodeSync that has a pool.
func (r *Recorder) beginLogs() {
	for _, pool := range r.pools {
		b := r.logs[pool.of.NamespacedName]
		if pool.of != (owner{}) && (b == nil || b.of != pool.of) {
			r.logs[pool.of.NamespacedName] = &logState{of: pool.of}
		}
	}
}

// present returns the NodeClaims that exist; none if the API server does not serve them.
func (r *Recorder) present(ctx context.Context) (map[claimKey]bool, error) {
	const page = 500
	present := map[claimKey]bool{}
	list := &metav1.PartialObjectMetadataList{}
	for {
		list.SetGroupVersionKind(karpenter.WithKind("NodeClaimList"))
		err := r.Uncached.List(ctx, list, client.Limit(page), client.Continue(list.Continue))
		if apimeta.IsNoMatchError(err) {
			return present, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the remaining NodeClaims: %w", err)
		}
		for i := range list.Items {
			present[keyOf(list.Items[i].Name, list.Items[i].CreationTimestamp)] = true
		}
		if list.Continue == "" {
			return present, nil
		}
	}
}

// warnings returns the reasons of Karpenter's warnings about NodeClaims, if any of them may still change: events are
// sent after what they report (sigs.k8s.io/karpenter pkg/events/recorder.go).
func (r *Recorder) warnings(ctx context.Context, all map[types.UID]termination) (map[types.UID][]string, error) {
	const page = 500
	reasons := map[types.UID][]string{}
	if len(all) == 0 {
		return reasons, nil
	}
	list := &corev1.EventList{}
	about := client.MatchingFields{"involvedObject.kind": "NodeClaim", "type": corev1.EventTypeWarning}
	for {
		if err := r.Uncached.List(ctx, list, client.InNamespace(corev1.NamespaceDefault), about, client.Limit(page), client.Continue(list.Continue)); err != nil {
			return nil, fmt.Errorf("read Karpenter's events about NodeClaims: %w", err)
		}
		for i := range list.Items {
			e := &list.Items[i]
			if _, ends := all[e.InvolvedObject.UID]; ends {
				reasons[e.InvolvedObject.UID] = append(reasons[e.InvolvedObject.UID], e.Reason)
			}
		}
		if list.Continue == "" {
			return reasons, nil
		}
	}
}

// ring is where the Records of one NodeSync are stored: number n in slot n modulo all slots, so only the latest are
// kept, and each ConfigMap contains the slots of one segment.
type ring struct {
	// segments with so many slots each.
	segments, slots int
}

// defaultRing keeps the latest 2,000 of a NodeSync, in ten ConfigMaps of at most 60 kB.
var defaultRing = ring{segments: 10, slots: 200}

// capacity returns how many Records it keeps.
func (r ring) capacity() int { return r.segments * r.slots }

// segmentOf returns the segment of a number.
func (r ring) segmentOf(seq int) int { return seq % r.capacity() / r.slots }

// segment contains the lines of one segment, by number.
type segment map[int]string

// put stores a line in its slot, unless the slot contains a newer one.
func (s segment) put(r ring, seq int, line string) {
	for other := range s {
		if other != seq && other%r.capacity() == seq%r.capacity() {
			if other > seq {
				return
			}
			delete(s, other)
		}
	}
	s[seq] = line
}

// String returns the segment as text, in the order of the numbers.
func (s segment) String() string {
	var text strings.Builder
	for _, seq := range slices.Sorted(maps.Keys(s)) {
		text.WriteString(s[seq] + "\n")
	}
	return text.String()
}

// parseSegment parses a text. It skips lines that are no Records, because other clients can write a ConfigMap.
func parseSegment(text string) segment {
	s := segment{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		number, _, _ := strings.Cut(line, "\t")
		if seq, err := strconv.Atoi(number); err == nil && seq >= 0 {
			s[seq] = line
		}
	}
	return s
}

// recordsPurpose describes the content of the ConfigMaps.
const recordsPurpose = "the record of terminated nodes"

// The content of a NodeSync's ConfigMaps: each contains Records; that of segment 0 also contains the Gaps.
const (
	recordsKey = "records.tsv"
	gapsKey    = "gaps.json"
	// recordedUntil is the annotation with the time up to which everything is recorded.
	recordedUntil = "plumbline.dev/recorded-until"
	// segmentLabel contains the number of the segment.
	segmentLabel = "plumbline.dev/segment"

	component = "ended-nodes"
)

// maxGaps is how many Gaps are kept, the latest ones.
const maxGaps = 20

// Gap is a time whose terminations are not recorded because there was no leader.
type Gap struct {
	From metav1.Time `json:"from"`
	To   metav1.Time `json:"to"`
}

// ObjectName returns the name of the ConfigMap with a segment of a NodeSync's record. It differs from all names of
// records of removals, which start with "plumbline-".
func ObjectName(nodeSync string, segment int) string {
	return v1alpha1.ObjectName("plumbline.ended-"+strconv.Itoa(segment)+"-", nodeSync)
}

// owner is the NodeSync to which a record belongs.
type owner struct {
	types.NamespacedName
	uid types.UID
}

// change is written to one segment at a time.
type change struct {
	segment int
	// lines by number; may be empty.
	lines map[int]string
	// until is the time up to which everything is recorded after the write; zero does not change it.
	until time.Time
	// gap is added if its To is set, to segment 0 only.
	gap Gap
}

// write applies a change to its ConfigMap, in the version that it reads.
func (r *Recorder) write(ctx context.Context, of owner, c change) error {
	name := types.NamespacedName{Namespace: of.Namespace, Name: ObjectName(of.Name, c.segment)}
	object := &corev1.ConfigMap{}
	err := r.Uncached.Get(ctx, name, object)
	found := err == nil
	switch {
	case apierrors.IsNotFound(err):
		object = empty(of, c.segment)
	case err != nil:
		return fmt.Errorf("read %s in ConfigMap %s: %w", recordsPurpose, name, err)
	default:
		has, ours := ownedBy(object)
		if !ours || has != of {
			return configmap.InTheWay(object, recordsPurpose, of.Name)
		}
		if err := configmap.Writable(object, recordsPurpose); err != nil {
			return err
		}
	}
	if err := r.apply(object, c); err != nil {
		return err
	}
	if found {
		err = r.Writer.Update(ctx, object, client.FieldOwner(v1alpha1.FieldManager))
	} else {
		err = r.Writer.Create(ctx, object, client.FieldOwner(v1alpha1.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("write %s to ConfigMap %s: %w", recordsPurpose, name, err)
	}
	r.cached.put(of, object)
	return nil
}

// apply applies a change to a ConfigMap.
func (r *Recorder) apply(object *corev1.ConfigMap, c change) error {
	lines := parseSegment(object.Data[recordsKey])
	for seq, line := range c.lines {
		lines.put(r.ring, seq, line)
	}
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	object.Data[recordsKey] = lines.String()
	if !c.until.IsZero() {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, recordedUntil, c.until.UTC().Format(time.RFC3339))
	}
	if c.gap.To.IsZero() {
		return nil
	}
	gaps := append(gapsOf(object), c.gap)
	encoded, err := json.Marshal(gaps[max(0, len(gaps)-maxGaps):])
	if err != nil {
		return fmt.Errorf("encode the gaps of a record: %w", err)
	}
	object.Data[gapsKey] = string(encoded)
	return nil
}

func empty(of owner, segment int) *corev1.ConfigMap {
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name, UID: of.uid}}
	object := configmap.New(sync, ObjectName(of.Name, segment))
	object.Labels[configmap.ComponentLabel], object.Labels[segmentLabel] = component, strconv.Itoa(segment)
	return object
}

// ownedBy returns the NodeSync to which a ConfigMap belongs.
func ownedBy(object *corev1.ConfigMap) (owner, bool) {
	name, uid, ours := configmap.NodeSyncOf(object, component)
	return owner{NamespacedName: name, uid: uid}, ours
}

// gapsOf returns the Gaps in a ConfigMap; none if they cannot be parsed.
func gapsOf(object *corev1.ConfigMap) []Gap {
	var gaps []Gap
	if json.Unmarshal([]byte(object.Data[gapsKey]), &gaps) != nil {
		return nil
	}
	return gaps
}

// pageOf is how many ConfigMaps one LIST returns.
const pageOf = 20

// each calls a function with every ConfigMap of a namespace that contains Records.
func each(ctx context.Context, reader client.Reader, namespace string, call func(owner, *corev1.ConfigMap)) error {
	list := &corev1.ConfigMapList{}
	for {
		err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{configmap.ComponentLabel: component},
			client.Limit(pageOf), client.Continue(list.Continue))
		if err != nil {
			return fmt.Errorf("read %s: %w", recordsPurpose, err)
		}
		for i := range list.Items {
			if of, ours := ownedBy(&list.Items[i]); ours {
				call(of, &list.Items[i])
			}
		}
		if list.Continue == "" {
			return nil
		}
	}
}

// Log is the record of a NodeSync.
type Log struct {
	// NodeSync is its name.
	NodeSync string `json:"nodeSync"`
	// Records are sorted, the latest first.
	Records []Record `json:"records"`
	// Gaps are the times without Records, the oldest first.
	Gaps []Gap `json:"gaps,omitempty"`
	// Since is when recording started, and Until the time up to which everything is recorded.
	Since metav1.Time `json:"since,omitzero"`
	Until metav1.Time `json:"until,omitzero"`
}

// Read reads the records in a namespace, by the names of the NodeSyncs.
func Read(ctx context.Context, reader client.Reader, namespace string) (map[string]*Log, error) {
	b := newBinder()
	if err := each(ctx, reader, namespace, func(of owner, object *corev1.ConfigMap) { b.add(of.Name, object) }); err != nil {
		return nil, err
	}
	return b.bound(), nil
}

// binder makes Logs from ConfigMaps.
type binder struct {
	logs    map[string]*Log
	numbers map[string]map[int]Record
}

func newBinder() *binder {
	return &binder{logs: map[string]*Log{}, numbers: map[string]map[int]Record{}}
}

// add adds a ConfigMap of a NodeSync.
func (b *binder) add(nodeSync string, object *corev1.ConfigMap) {
	l := b.logs[nodeSync]
	if l == nil {
		l = &Log{NodeSync: nodeSync, Records: []Record{}}
		b.logs[nodeSync], b.numbers[nodeSync] = l, map[int]Record{}
	}
	for _, line := range parseSegment(object.Data[recordsKey]) {
		if seq, record, err := parse(line); err == nil {
			b.numbers[nodeSync][seq] = record
		}
	}
	l.Gaps = append(l.Gaps, gapsOf(object)...)
	if made := object.CreationTimestamp; l.Since.IsZero() || made.Before(&l.Since) {
		l.Since = made
	}
	if until := untilOf(object); until.After(l.Until.Time) {
		l.Until = metav1.NewTime(until)
	}
}

// bound returns the Logs by the names of the NodeSyncs.
func (b *binder) bound() map[string]*Log {
	for name, l := range b.logs {
		l.Records = newestFirst(b.numbers[name])
	}
	return b.logs
}

// newestFirst sorts Records; those with the same time are sorted by their numbers.
func newestFirst(numbers map[int]Record) []Record {
	seqs := slices.SortedFunc(maps.Keys(numbers), func(a, b int) int {
		return cmp.Or(NewestFirst(numbers[a], numbers[b]), b-a)
	})
	records := make([]Record, 0, len(seqs))
	for _, seq := range seqs {
		records = append(records, numbers[seq])
	}
	return records
}

// untilOf returns the time up to which everything is recorded according to a ConfigMap.
func untilOf(object *corev1.ConfigMap) time.Time {
	at, err := time.Parse(time.RFC3339, object.Annotations[recordedUntil])
	if err != nil {
		return time.Time{} // another client wrote it
	}
	return at
}

// cache contains what was last read and written, so that displaying it takes no requests. It is empty unless open is
// set.
type cache struct {
	mu   sync.Mutex
	open bool
	by   map[owner]map[string]*corev1.ConfigMap
}

// Keep keeps the records in memory, for Kept: at most about 600 kB for each NodeSync. Call it before Start.
func (r *Recorder) Keep() { r.cached.open = true }

// Kept returns the record of a NodeSync; nil if there is none, or none is kept in memory.
func (r *Recorder) Kept(name types.NamespacedName, uid types.UID) *Log {
	b := newBinder()
	r.cached.mu.Lock()
	for _, object := range r.cached.by[owner{NamespacedName: name, uid: uid}] {
		b.add(name.Name, object)
	}
	r.cached.mu.Unlock()
	return b.bound()[name.Name]
}

// put stores a ConfigMap as it was read or written.
func (s *cache) put(of owner, object *corev1.ConfigMap) {
	if !s.open {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[owner]map[string]*corev1.ConfigMap{}
	}
	if s.by[of] == nil {
		for other := range s.by {
			if other.NamespacedName == of.NamespacedName {
				delete(s.by, other) // an earlier NodeSync had the name
			}
		}
		s.by[of] = map[string]*corev1.ConfigMap{}
	}
	object.ManagedFields = nil
	s.by[of][object.Name] = object
}

// cacheAll stores a ConfigMap at the start.
func (r *Recorder) cacheAll(of owner, object *corev1.ConfigMap) {
	if r.cached.open {
		r.cached.put(of, object.DeepCopy()) // not a pointer into the list, which would keep the whole list in memory
	}
}
