package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Queue holds the ledgers of all NodeSyncs. A reported status is written to the cluster before Record returns.
type Queue struct {
	reader client.Reader
	writer client.Writer
	// woken receives a value when there may be something to post.
	woken chan struct{}

	mu      sync.Mutex
	ledgers map[ledgerKey]*openLedger
}

// NewQueue returns an empty Queue. The reader must not be a cache.
func NewQueue(reader client.Reader, writer client.Writer) *Queue {
	return &Queue{reader: reader, writer: writer, woken: make(chan struct{}, 1), ledgers: map[ledgerKey]*openLedger{}}
}

// Head returns the commit that the last verdict was about; empty if there was none.
func (q *Queue) Head(ctx context.Context, sync *v1alpha1.NodeSync) (string, error) {
	b := q.ledgerOf(ownerOf(sync, SubjectWhole))
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.open(ctx, SubjectWhole.of(sync.Status.Reported)); err != nil {
		return "", err
	}
	return b.ledger.Head, nil
}

// Record records a verdict, and writes it to the cluster if it is new.
func (q *Queue) Record(ctx context.Context, sync *v1alpha1.NodeSync, s Update) error {
	b := q.ledgerOf(ownerOf(sync, s.Subject))
	b.mu.Lock()
	defer b.mu.Unlock()
	reported := s.Subject.of(sync.Status.Reported)
	if err := b.open(ctx, reported); err != nil {
		return err
	}
	s.Context, s.Fallback = s.Subject.Of(s.Context), s.Subject.Of(s.Fallback)
	dropped := b.ledger.without(s.Hosts)
	if err := b.change(ctx, reported, func(l *Ledger) { l.record(s) }); err != nil {
		return err
	}
	for _, lane := range dropped {
		ctrl.LoggerFrom(ctx).Info("spec.report no longer names a host: what waited for it is dropped", "provider", lane.Provider, "url", lane.URL,
			"statuses", len(lane.Waiting))
	}
	q.wake()
	return nil
}

// Reported returns what was reported last, for each host and subject. It makes no request: ledgers that were never read
// are unknown.
func (q *Queue) Reported(sync *v1alpha1.NodeSync) (list []v1alpha1.Reported, known bool) {
	for _, subject := range subjects() {
		b := q.known(ledgerKey{client.ObjectKeyFromObject(sync), subject})
		if b == nil || b.store.owner.uid != sync.UID {
			list = append(list, subject.of(sync.Status.Reported)...)
			continue
		}
		b.mu.Lock()
		if b.opened {
			list = append(list, b.ledger.reported()...)
			known = known || subject == SubjectWhole
		} else {
			list = append(list, subject.of(sync.Status.Reported)...)
		}
		b.mu.Unlock()
	}
	return list, known
}

// Forget drops what is held in memory for a deleted NodeSync. Its ConfigMaps are deleted with it.
func (q *Queue) Forget(name types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, subject := range subjects() {
		delete(q.ledgers, ledgerKey{name, subject})
	}
}

// QueueDepth is how many statuses of a NodeSync wait, and since when the oldest does.
type QueueDepth struct {
	Length int
	Oldest time.Time
}

// Depths returns those of all known NodeSyncs.
func (q *Queue) Depths() map[types.NamespacedName]QueueDepth {
	depths := map[types.NamespacedName]QueueDepth{}
	for _, b := range q.all() {
		b.mu.Lock()
		n, oldest := b.ledger.length()
		b.mu.Unlock()
		d := depths[b.store.owner.NamespacedName]
		if d.Length += n; d.Oldest.IsZero() || n > 0 && oldest.Before(d.Oldest) {
			d.Oldest = oldest
		}
		depths[b.store.owner.NamespacedName] = d
	}
	return depths
}

// load reads every ledger in a namespace that is not known yet.
func (q *Queue) load(ctx context.Context, namespace string) error {
	list := &corev1.ConfigMapList{}
	err := q.reader.List(ctx, list, client.InNamespace(namespace),
		client.MatchingLabels{configmap.ManagedByLabel: v1alpha1.FieldManager, configmap.ComponentLabel: component})
	if err != nil {
		return fmt.Errorf("list the queues of commit statuses in namespace %s: %w", namespace, err)
	}
	for i := range list.Items {
		has, ours := ownedBy(&list.Items[i])
		if !ours || list.Items[i].Name != has.objectName() {
			continue
		}
		b := q.ledgerOf(has)
		b.mu.Lock()
		if err := b.useStored(&list.Items[i]); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "commit statuses wait") // the NodeSync's next reconcile reports it
		}
		b.mu.Unlock()
	}
	return nil
}

// wake wakes the Deliverer.
func (q *Queue) wake() {
	select {
	case q.woken <- struct{}{}:
	default:
	}
}

// ledgerOf returns the ledger of a NodeSync, or a new one if the NodeSync was recreated.
func (q *Queue) ledgerOf(of owner) *openLedger {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b, ok := q.ledgers[of.ledgerKey]; ok && b.store.owner.uid == of.uid {
		return b
	}
	b := &openLedger{store: store{reader: q.reader, writer: q.writer, owner: of}}
	q.ledgers[of.ledgerKey] = b
	return b
}

func (q *Queue) known(name ledgerKey) *openLedger {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ledgers[name]
}

func (q *Queue) all() []*openLedger {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]*openLedger, 0, len(q.ledgers))
	for _, b := range q.ledgers {
		all = append(all, b)
	}
	return all
}

// openLedger is a ledger in memory and in the cluster.
type openLedger struct {
	mu     sync.Mutex
	store  store
	opened bool
	ledger Ledger
	// unwritten are the changes that are not written to the cluster yet. They are applied again if another client has
	// written in the meantime.
	unwritten []func(*Ledger)
	// writeAt is when a failed write is retried.
	writeAt time.Time
}

// maxWriteAttempts limits the retries of a write that conflicted.
const maxWriteAttempts = 4

// open reads the ledger once. If there is none, it restores what the NodeSync's status says was reported last.
func (b *openLedger) open(ctx context.Context, reported []v1alpha1.Reported) error {
	if b.opened {
		return nil
	}
	if err := b.reload(ctx, reported); err != nil {
		return err
	}
	b.opened = true
	return nil
}

// useStored uses a ConfigMap that was just read.
func (b *openLedger) useStored(object *corev1.ConfigMap) error {
	if b.opened {
		return nil
	}
	ledger, err := decode(object)
	if err != nil {
		return err
	}
	b.ledger, b.store.object, b.opened = ledger, object, true
	return nil
}

// reload reads the ledger again.
func (b *openLedger) reload(ctx context.Context, reported []v1alpha1.Reported) error {
	ledger, found, err := b.store.load(ctx)
	if err != nil {
		return err
	}
	if !found {
		if b.opened {
			return nil // another client has deleted it: write it again
		}
		ledger = restored(reported)
	}
	for _, change := range b.unwritten {
		change(&ledger)
	}
	b.ledger = ledger
	return nil
}

// change writes a change, and applies it in memory only if the write succeeded.
func (b *openLedger) change(ctx context.Context, reported []v1alpha1.Reported, change func(*Ledger)) error {
	for range maxWriteAttempts {
		next, err := b.ledger.clone()
		if err != nil {
			return err
		}
		change(&next)
		err = b.store.save(ctx, next)
		if err == nil {
			b.ledger, b.unwritten, b.writeAt = next, nil, time.Time{}
			return nil
		}
		if !errors.Is(err, errChanged) {
			return err
		}
		if err := b.reload(ctx, reported); err != nil {
			return err
		}
	}
	return fmt.Errorf("write the queue of commit statuses of NodeSync %s: %w", b.store.owner.NamespacedName, errChanged)
}

// note applies a change that is written later, because it has already happened.
func (b *openLedger) note(change func(*Ledger)) {
	change(&b.ledger)
	b.unwritten = append(b.unwritten, change)
}

// flush writes the recorded changes.
func (b *openLedger) flush(ctx context.Context) error {
	if len(b.unwritten) == 0 {
		return nil
	}
	return b.change(ctx, nil, func(*Ledger) {})
}

// clone returns a deep copy.
func (l *Ledger) clone() (Ledger, error) {
	data, err := json.Marshal(l)
	if err != nil {
		return Ledger{}, fmt.Errorf("encode the queue of commit statuses: %w", err)
	}
	var c Ledger
	if err := json.Unmarshal(data, &c); err != nil {
		return Ledger{}, fmt.Errorf("decode the queue of commit statuses: %w", err)
	}
	return c, nil
}

// holds describes the content of the ConfigMap.
const holds = "the queue of commit statuses"

// dataKey is the key of the ledger in its ConfigMap.
const dataKey = "ledger.json"

// component is the label value of a ledger's ConfigMap, by which all ledgers are found at the start.
const component = "commit-statuses"

// owner is the NodeSync that a ledger belongs to, and the ledger's subject.
type owner struct {
	ledgerKey
	uid types.UID
}

// ledgerKey identifies a ledger.
type ledgerKey struct {
	types.NamespacedName
	subject Subject
}

func ownerOf(sync *v1alpha1.NodeSync, subject Subject) owner {
	return owner{ledgerKey: ledgerKey{client.ObjectKeyFromObject(sync), subject}, uid: sync.UID}
}

// objectName returns the name of the ledger's ConfigMap.
func (o owner) objectName() string { return o.subject.ObjectName(o.Name) }

// errChanged reports a write to something that another client has changed.
var errChanged = errors.New("another client has changed it")

// store reads and writes the ledger of one NodeSync.
type store struct {
	reader client.Reader
	writer client.Writer
	owner  owner
	// object is the ConfigMap as it was last read or written; nil if there is none.
	object *corev1.ConfigMap
}

// load reads the ledger without a cache. found is false if there is none.
func (s *store) load(ctx context.Context) (l Ledger, found bool, err error) {
	s.object = nil
	object := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: s.owner.Namespace, Name: s.owner.objectName()}
	err = s.reader.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err):
		return Ledger{}, false, nil
	case err != nil:
		return Ledger{}, false, fmt.Errorf("read the queue of commit statuses in ConfigMap %s: %w", key, err)
	}
	has, ours := ownedBy(object)
	switch {
	case !ours || has.ledgerKey != s.owner.ledgerKey:
		return Ledger{}, false, configmap.InTheWay(object, holds, s.owner.Name)
	case has.uid != s.owner.uid:
		// It belongs to a former NodeSync of this name; the garbage collector has not deleted it yet.
		return Ledger{}, false, s.drop(ctx, object)
	}
	if l, err = decode(object); err != nil {
		return Ledger{}, false, err
	}
	s.object = object
	return l, true, nil
}

func decode(object *corev1.ConfigMap) (Ledger, error) {
	var l Ledger
	if err := json.Unmarshal([]byte(object.Data[dataKey]), &l); err != nil {
		return Ledger{}, configmap.Unreadable(object, holds, err, "those that are not posted yet")
	}
	return l, nil
}

// ownedBy returns the NodeSync that a ConfigMap belongs to, and its subject, derived from its name.
func ownedBy(object *corev1.ConfigMap) (owner, bool) {
	name, uid, ours := configmap.NodeSyncOf(object, component)
	if !ours {
		return owner{}, false
	}
	has := owner{ledgerKey: ledgerKey{NamespacedName: name}, uid: uid}
	for _, subject := range subjects() {
		if object.Name == subject.ObjectName(name.Name) {
			has.subject = subject
		}
	}
	return has, true
}

// save writes a ledger over exactly what was read, if it has changed. A ledger without lanes needs no object. The error
// wraps errChanged if the ledger must be loaded again.
func (s *store) save(ctx context.Context, l Ledger) error {
	if len(l.Lanes) == 0 {
		if s.object == nil {
			return nil
		}
		return s.drop(ctx, s.object)
	}
	data, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode the queue of commit statuses: %w", err)
	}
	if s.object != nil && s.object.Data[dataKey] == string(data) {
		return nil
	}
	target := s.target()
	if err := configmap.Writable(target, holds); err != nil {
		return err
	}
	target.Data = map[string]string{dataKey: string(data)}
	if s.object == nil {
		err = s.writer.Create(ctx, target, client.FieldOwner(v1alpha1.FieldManager))
	} else {
		err = s.writer.Update(ctx, target, client.FieldOwner(v1alpha1.FieldManager))
	}
	if err != nil {
		return s.refused("write", err)
	}
	s.object = target
	return nil
}

// target returns the ConfigMap to write.
func (s *store) target() *corev1.ConfigMap {
	if s.object != nil {
		return s.object.DeepCopy()
	}
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: s.owner.Namespace, Name: s.owner.Name, UID: s.owner.uid}}
	target := configmap.New(sync, s.owner.objectName())
	target.Labels[configmap.ComponentLabel] = component
	return target
}

// drop deletes the ConfigMap exactly as it was read.
func (s *store) drop(ctx context.Context, object *corev1.ConfigMap) error {
	exactly := client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	if err := client.IgnoreNotFound(s.writer.Delete(ctx, object, exactly)); err != nil {
		return s.refused("delete", err)
	}
	s.object = nil
	return nil
}

func (s *store) refused(what string, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && s.object != nil {
		err = fmt.Errorf("%w: %w", errChanged, err)
	}
	return fmt.Errorf("%s the queue of commit statuses in ConfigMap %s/%s: %w", what, s.owner.Namespace, s.owner.objectName(), err)
}

const (
	// maxWaiting limits the waiting statuses of one NodeSync, over all hosts, so that they fit into a ConfigMap: one
	// is well below a kilobyte.
	maxWaiting = 800
	// maxSuperseded limits the commits that wait for the final status of the commit that superseded them.
	maxSuperseded = 100
)

// bound drops the oldest entries if a host has been unreachable for so long, or no verdict has been final over so many
// commits, that the ledger would no longer fit.
func (l *Ledger) bound(now time.Time) {
	overtaken := 0
	l.Commits = slices.DeleteFunc(l.Commits, func(c Commit) bool {
		if c.Phase != PhaseSuperseded {
			return false
		}
		if overtaken++; overtaken <= maxSuperseded {
			return false
		}
		for i := range l.Lanes {
			if lane := &l.Lanes[i]; lane.Context == l.Context {
				lane.put(c.ID, Word{State: Failure, Description: "superseded before it was complete"}, "", now)
			}
		}
		return true
	})
	for i := range l.Lanes {
		lane, share := &l.Lanes[i], maxWaiting/len(l.Lanes)
		if over := len(lane.Waiting) - share; over > 0 {
			lane.Waiting = slices.Delete(lane.Waiting, 0, over)
			lane.Lost = fmt.Sprintf("more than %d commit statuses wait for %s: the oldest were given up", share, lane.URL)
		}
	}
}
