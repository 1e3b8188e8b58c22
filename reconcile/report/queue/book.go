package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// book is a ledger in memory and in the cluster.
type book struct {
	mu     sync.Mutex
	store  store
	opened bool
	ledger Ledger
	// unwritten are the changes that the cluster does not have yet. They are repeated
	// where another client has written meanwhile.
	unwritten []func(*Ledger)
	// writeAt is when they are written again, where they could not be.
	writeAt time.Time
}

// attempts bounds how often a write that was overtaken is repeated.
const attempts = 4

// open reads the ledger once. Where there is none, the NodeSync's status says
// what was reported last.
func (b *book) open(ctx context.Context, reported []v1alpha1.Reported) error {
	if b.opened {
		return nil
	}
	if err := b.reload(ctx, reported); err != nil {
		return err
	}
	b.opened = true
	return nil
}

// take keeps a ConfigMap that was read just now.
func (b *book) take(object *corev1.ConfigMap) error {
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
func (b *book) reload(ctx context.Context, reported []v1alpha1.Reported) error {
	ledger, found, err := b.store.load(ctx)
	if err != nil {
		return err
	}
	if !found {
		if b.opened {
			return nil // another client has deleted it: it is written again
		}
		ledger = restored(reported)
	}
	for _, change := range b.unwritten {
		change(&ledger)
	}
	b.ledger = ledger
	return nil
}

// change writes a change, and makes it only if it could be written.
func (b *book) change(ctx context.Context, reported []v1alpha1.Reported, change func(*Ledger)) error {
	for range attempts {
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
		if !errors.Is(err, errOvertaken) {
			return err
		}
		if err := b.reload(ctx, reported); err != nil {
			return err
		}
	}
	return fmt.Errorf("write the queue of commit statuses of NodeSync %s: %w", b.store.owner.NamespacedName, errOvertaken)
}

// note makes a change that is written later: it has happened already.
func (b *book) note(change func(*Ledger)) {
	change(&b.ledger)
	b.unwritten = append(b.unwritten, change)
}

// flush writes what was noted.
func (b *book) flush(ctx context.Context) error {
	if len(b.unwritten) == 0 {
		return nil
	}
	return b.change(ctx, nil, func(*Ledger) {})
}

// clone is a deep copy.
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
