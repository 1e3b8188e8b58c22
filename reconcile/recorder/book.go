package recorder

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// book is what the loop knows of the record of one NodeSync: where it goes on, and what was open
// when this leader began.
type book struct {
	of owner
	// next is the number of the next Record.
	next int
	// open are the Records of NodeClaims that were ending when the last leader wrote.
	open map[claimKey]numbered
	// late are lines of those of them that have gone while nobody led.
	late map[int]string
	// until is up to when all is recorded; zero where nothing is.
	until metav1.Time
	// gap is the time since, of which nothing is; it has no end while nothing is watched.
	gap Gap
}

// claimKey tells NodeClaims apart, also of one name.
type claimKey struct {
	name    string
	created int64
}

type numbered struct {
	seq    int
	record Record
}

func keyOf(name string, created metav1.Time) claimKey { return claimKey{name, created.Unix()} }

// covered says that what ends now is recorded.
func (b *book) covered() bool { return b.gap.From.IsZero() || !b.gap.To.IsZero() }

// due says that something has to be written although nothing has ended.
func (b *book) due(now time.Time) bool {
	return b.covered() && (!b.gap.To.IsZero() || now.Sub(b.until.Time) >= heartbeat)
}

func byName(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// load reads where the records go on that the last leader has left.
func (r *Recorder) load(ctx context.Context) error {
	books := map[types.NamespacedName]*book{}
	err := each(ctx, r.Uncached, r.Namespace, func(of owner, object *corev1.ConfigMap) {
		r.keepAll(of, object)
		b := books[of.NamespacedName]
		if b == nil || b.of != of {
			b = &book{of: of, open: map[claimKey]numbered{}}
			books[of.NamespacedName] = b
		}
		if until := untilOf(object); until.After(b.until.Time) {
			b.until = metav1.NewTime(until)
		}
		for _, line := range parseSegment(object.Data[recordsKey]) {
			seq, record, err := parse(line)
			if err != nil {
				continue // another client has written it
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
	r.books = books
	return nil
}

// begin closes the gaps of the time when nobody led, as soon as NodeClaims are watched, or where
// there are none: what was ending then, and is gone, has ended in it. It also begins the
// books of NodeSyncs that have none.
func (r *Recorder) begin(ctx context.Context, heard bool, all map[types.UID]ending) error {
	r.beginBooks()
	waiting := false
	for _, b := range r.books {
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
		present[keyOf(e.facts.NodeClaim, e.facts.Created)] = true // the watch has it, gone or not
	}
	now := metav1.NewTime(r.Now()).Rfc3339Copy()
	for _, b := range r.books {
		if b.covered() {
			continue
		}
		late := map[int]string{}
		for key, open := range b.open {
			if present[key] {
				continue
			}
			line, err := lost(open.record, now).format(open.seq)
			if err != nil {
				return err
			}
			late[open.seq] = line
		}
		b.late, b.gap.To = late, now
	}
	return nil
}

// lost is the Record of a NodeClaim that was ending, and has gone while nobody led.
func lost(record Record, now metav1.Time) Record {
	record.Gone, record.Late = now, true
	if record.Cause == ByHand {
		record.Cause, record.Detail, record.ByRevision = Unknown, "its end was not watched", false
	}
	return record
}

// beginBooks begins the book of each NodeSync that has a pool.
func (r *Recorder) beginBooks() {
	for _, pool := range r.pools {
		b := r.books[pool.of.NamespacedName]
		if pool.of != (owner{}) && (b == nil || b.of != pool.of) {
			r.books[pool.of.NamespacedName] = &book{of: pool.of}
		}
	}
}

// present are the NodeClaims that there are; none where the API server does not serve them.
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
			return nil, fmt.Errorf("read which NodeClaims are left: %w", err)
		}
		for i := range list.Items {
			present[keyOf(list.Items[i].Name, list.Items[i].CreationTimestamp)] = true
		}
		if list.Continue == "" {
			return present, nil
		}
	}
}

// warnings are the reasons of Karpenter's warnings about NodeClaims, where one of them may still
// change: they are sent after what they are about (sigs.k8s.io/karpenter pkg/events/recorder.go).
func (r *Recorder) warnings(ctx context.Context, all map[types.UID]ending) (map[types.UID][]string, error) {
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
