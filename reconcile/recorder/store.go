package recorder

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/configmap"
)

// holds is what the ConfigMaps are for.
const holds = "the record of ended nodes"

// What the ConfigMaps of a NodeSync have: each its Records; that of segment 0 the Gaps, too.
const (
	recordsKey = "records.tsv"
	gapsKey    = "gaps.json"
	// recordedUntil is the annotation with the time up to which everything is recorded.
	recordedUntil = "plumbline.dev/recorded-until"
	// segmentLabel is the number of the segment.
	segmentLabel = "plumbline.dev/segment"

	component = "ended-nodes"
)

// maxGaps is how many Gaps are kept, the newest.
const maxGaps = 20

// Gap is a time of which what ended is not recorded, as nobody led.
type Gap struct {
	From metav1.Time `json:"from"`
	To   metav1.Time `json:"to"`
}

// ObjectName is the name of the ConfigMap with a segment of a NodeSync's record. No record of
// removals can have it: those begin with "plumbline-".
func ObjectName(nodeSync string, segment int) string {
	return v1alpha1.ObjectName("plumbline.ended-"+strconv.Itoa(segment)+"-", nodeSync)
}

// owner is the NodeSync that a record belongs to.
type owner struct {
	types.NamespacedName
	uid types.UID
}

// change is what is written to one segment at a time.
type change struct {
	segment int
	// lines by number; there may be none.
	lines map[int]string
	// until is the time up to which everything is recorded once it is written; zero leaves it.
	until time.Time
	// gap, if it ends, is added: to segment 0 only.
	gap Gap
}

// write writes a change to its ConfigMap, over what it reads of it.
func (r *Recorder) write(ctx context.Context, of owner, c change) error {
	name := types.NamespacedName{Namespace: of.Namespace, Name: ObjectName(of.Name, c.segment)}
	object := &corev1.ConfigMap{}
	err := r.Uncached.Get(ctx, name, object)
	found := err == nil
	switch {
	case apierrors.IsNotFound(err):
		object = empty(of, c.segment)
	case err != nil:
		return fmt.Errorf("read %s in ConfigMap %s: %w", holds, name, err)
	default:
		has, ours := ownedBy(object)
		if !ours || has != of {
			return configmap.InTheWay(object, holds, of.Name)
		}
		if err := configmap.Writable(object, holds); err != nil {
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
		return fmt.Errorf("write %s to ConfigMap %s: %w", holds, name, err)
	}
	r.kept.put(of, object)
	return nil
}

// apply makes a change in a ConfigMap.
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

// ownedBy is the NodeSync that a ConfigMap belongs to.
func ownedBy(object *corev1.ConfigMap) (owner, bool) {
	name, uid, ours := configmap.NodeSyncOf(object, component)
	return owner{NamespacedName: name, uid: uid}, ours
}

// gapsOf are the Gaps in a ConfigMap; none where they cannot be read.
func gapsOf(object *corev1.ConfigMap) []Gap {
	var gaps []Gap
	if json.Unmarshal([]byte(object.Data[gapsKey]), &gaps) != nil {
		return nil
	}
	return gaps
}

// pageOf is how many ConfigMaps are read at a time.
const pageOf = 20

// each calls with every ConfigMap of a namespace that has Records.
func each(ctx context.Context, reader client.Reader, namespace string, call func(owner, *corev1.ConfigMap)) error {
	list := &corev1.ConfigMapList{}
	for {
		err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{configmap.ComponentLabel: component}, client.Limit(pageOf), client.Continue(list.Continue))
		if err != nil {
			return fmt.Errorf("read %s: %w", holds, err)
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

// Log is what is recorded for a NodeSync.
type Log struct {
	// NodeSync is its name.
	NodeSync string `json:"nodeSync"`
	// Records are the newest first.
	Records []Record `json:"records"`
	// Gaps are the times of which there are no Records, the oldest first.
	Gaps []Gap `json:"gaps,omitempty"`
	// Since is when it began to be recorded, and Until up to when everything is.
	Since metav1.Time `json:"since,omitzero"`
	Until metav1.Time `json:"until,omitzero"`
}

// Read reads what is recorded in a namespace, by the NodeSyncs' names.
func Read(ctx context.Context, reader client.Reader, namespace string) (map[string]*Log, error) {
	b := newBinder()
	if err := each(ctx, reader, namespace, func(of owner, object *corev1.ConfigMap) { b.add(of.Name, object) }); err != nil {
		return nil, err
	}
	return b.bound(), nil
}

// binder makes Logs of ConfigMaps.
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

// bound are the Logs by the NodeSyncs' names.
func (b *binder) bound() map[string]*Log {
	for name, l := range b.logs {
		l.Records = newestFirst(b.numbers[name])
	}
	return b.logs
}

// newestFirst sorts Records, those of one second by their numbers.
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

// untilOf is the time up to which a ConfigMap says that everything is recorded.
func untilOf(object *corev1.ConfigMap) time.Time {
	at, err := time.Parse(time.RFC3339, object.Annotations[recordedUntil])
	if err != nil {
		return time.Time{} // another client has written it
	}
	return at
}
