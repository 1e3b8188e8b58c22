package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/configmap"
)

// Queue holds the ledgers of all NodeSyncs. What is reported stands in the cluster
// before Say returns.
type Queue struct {
	reader client.Reader
	writer client.Writer
	// woken has something when there may be something to post.
	woken chan struct{}

	mu    sync.Mutex
	books map[bookKey]*book
}

// New makes an empty Queue. The reader must not be a cache.
func New(reader client.Reader, writer client.Writer) *Queue {
	return &Queue{reader: reader, writer: writer, woken: make(chan struct{}, 1), books: map[bookKey]*book{}}
}

// Head is the commit that was spoken of last; empty where none was.
func (q *Queue) Head(ctx context.Context, sync *v1alpha1.NodeSync) (string, error) {
	b := q.book(ownerOf(sync, Whole))
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.open(ctx, Whole.of(sync.Status.Reported)); err != nil {
		return "", err
	}
	return b.ledger.Head, nil
}

// Say notes a verdict, and writes it down where it is news.
func (q *Queue) Say(ctx context.Context, sync *v1alpha1.NodeSync, s Update) error {
	b := q.book(ownerOf(sync, s.Subject))
	b.mu.Lock()
	defer b.mu.Unlock()
	reported := s.Subject.of(sync.Status.Reported)
	if err := b.open(ctx, reported); err != nil {
		return err
	}
	s.Context, s.Fallback = s.Subject.Of(s.Context), s.Subject.Of(s.Fallback)
	dropped := b.ledger.without(s.Hosts)
	if err := b.change(ctx, reported, func(l *Ledger) { l.say(s) }); err != nil {
		return err
	}
	for _, lane := range dropped {
		ctrl.LoggerFrom(ctx).Info("spec.report no longer names a host: what waited for it is dropped", "provider", lane.Provider, "url", lane.URL, "statuses", len(lane.Waiting))
	}
	q.wake()
	return nil
}

// Reported is what was reported last, for each host and subject. It makes no request: what was
// never read is not known.
func (q *Queue) Reported(sync *v1alpha1.NodeSync) (list []v1alpha1.Reported, known bool) {
	for _, subject := range subjects() {
		b := q.known(bookKey{client.ObjectKeyFromObject(sync), subject})
		if b == nil || b.store.owner.uid != sync.UID {
			list = append(list, subject.of(sync.Status.Reported)...)
			continue
		}
		b.mu.Lock()
		if b.opened {
			list = append(list, b.ledger.reported()...)
			known = known || subject == Whole
		} else {
			list = append(list, subject.of(sync.Status.Reported)...)
		}
		b.mu.Unlock()
	}
	return list, known
}

// Forget drops what is held of a NodeSync that is gone. Its ConfigMaps go with
// it.
func (q *Queue) Forget(name types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, subject := range subjects() {
		delete(q.books, bookKey{name, subject})
	}
}

// Depth is how many statuses of a NodeSync wait, and since when the oldest does.
type Depth struct {
	Length int
	Oldest time.Time
}

// Depths are those of all NodeSyncs that are known.
func (q *Queue) Depths() map[types.NamespacedName]Depth {
	depths := map[types.NamespacedName]Depth{}
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

// load takes every ledger in a namespace that is not known yet.
func (q *Queue) load(ctx context.Context, namespace string) error {
	list := &corev1.ConfigMapList{}
	err := q.reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{configmap.ManagedByLabel: v1alpha1.FieldManager, configmap.ComponentLabel: component})
	if err != nil {
		return fmt.Errorf("list the queues of commit statuses in namespace %s: %w", namespace, err)
	}
	for i := range list.Items {
		has, ours := ownedBy(&list.Items[i])
		if !ours || list.Items[i].Name != has.objectName() {
			continue
		}
		b := q.book(has)
		b.mu.Lock()
		if err := b.take(&list.Items[i]); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "commit statuses wait") // the NodeSync's next pass says so
		}
		b.mu.Unlock()
	}
	return nil
}

// wake has the Deliverer look.
func (q *Queue) wake() {
	select {
	case q.woken <- struct{}{}:
	default:
	}
}

// book returns the one of a NodeSync, a new one where it was recreated.
func (q *Queue) book(of owner) *book {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b, ok := q.books[of.bookKey]; ok && b.store.owner.uid == of.uid {
		return b
	}
	b := &book{store: store{reader: q.reader, writer: q.writer, owner: of}}
	q.books[of.bookKey] = b
	return b
}

func (q *Queue) known(name bookKey) *book {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.books[name]
}

func (q *Queue) all() []*book {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]*book, 0, len(q.books))
	for _, b := range q.books {
		all = append(all, b)
	}
	return all
}
