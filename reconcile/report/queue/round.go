package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// round posts what is due in one lane, until nothing is or the host fails, and
// then writes once that the host has it.
func (d *Deliverer) round(ctx context.Context, of laneOf) {
	b := d.Queue.known(of.name)
	if b == nil {
		return
	}
	before := b.trouble(of.lane)
	for n := 1; ctx.Err() == nil && d.post(ctx, b, of); n++ {
		if n%writeEvery == 0 {
			d.write(ctx, b)
		}
	}
	d.write(ctx, b)
	if b.trouble(of.lane) != before {
		d.Trouble(of.name.NamespacedName)
	}
}

// writeEvery is how many statuses a kill makes the next daemon post again at
// most. Usually there are fewer in a round, and one write is enough.
const writeEvery = 10

// write writes what was posted, also when we are being stopped.
func (d *Deliverer) write(ctx context.Context, b *book) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := b.write(ctx, d.Now()); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "what was posted is written down later", "nodesync", b.store.owner.NamespacedName)
	}
}

// post posts the first entry that is due. It says whether there was one.
func (d *Deliverer) post(ctx context.Context, b *book, of laneOf) bool {
	now := d.Now()
	host, entry, ok := b.next(of.lane, now)
	if !ok {
		return false
	}
	if err := d.StillLeader(ctx); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "commit statuses are not posted", "nodesync", of.name)
		b.hold(of.lane, now.Add(lookAgain))
		return false
	}
	a := attempt{entry: entry, at: now, jitter: d.Jitter()}
	err := d.send(ctx, b, host, &a)
	switch a.at = d.Now(); {
	case err != nil && ctx.Err() != nil:
		return false // we are being stopped; whether the host has it is not known
	case errors.Is(err, errDistrusted):
		b.hold(of.lane, a.at.Add(longestWait))
	case err != nil:
		b.noteOn(of.lane, func(l *Ledger, lane *Lane) { lane.failed(a, err, l.shows(lane, a.entry.Commit)) })
	default:
		b.noteOn(of.lane, func(_ *Ledger, lane *Lane) { lane.delivered(a.entry, a.at) })
	}
	return true
}

// errDistrusted is a Secret that the host has refused already.
var errDistrusted = errors.New("the secret is still the one that was refused")

// send makes the one request.
func (d *Deliverer) send(ctx context.Context, b *book, host Lane, a *attempt) error {
	ctx, cancel := lingering(ctx)
	defer cancel()
	secret := &corev1.Secret{}
	err := d.Secrets.Get(ctx, client.ObjectKey{Namespace: b.store.owner.Namespace, Name: host.Secret}, secret)
	if err != nil {
		if apierrors.IsNotFound(err) {
			a.secret = "absent"
		}
		return fmt.Errorf("read secret %s, which the report names: %w", host.Secret, err)
	}
	a.secret = string(secret.UID) + "/" + secret.ResourceVersion
	if host.distrusts(a.secret, a.at) {
		return errDistrusted
	}
	if err := d.Grants.Check(secret, grant.Use{NodeSync: b.store.owner.Name, Address: host.URL}); err != nil {
		return err
	}
	poster, err := d.Hosts.Host(host.Provider, host.URL, secret.Data)
	if err != nil {
		return err
	}
	return poster.Post(ctx, report.Status{
		Commit: a.entry.Commit, Context: host.Context, State: a.entry.State, Description: a.entry.Description, TargetURL: a.entry.TargetURL,
	})
}

// lingering is a context that outlives the other by a moment.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), postTimeout)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(farewell, cancel)
	})
	return longer, func() { stop(); cancel() }
}

// next is the first entry that may be posted in a lane now, and the lane as it is.
func (b *book) next(key laneKey, now time.Time) (Lane, Entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lane := b.ledger.lane(key)
	if lane == nil {
		return Lane{}, Entry{}, false
	}
	e, ok := lane.next(now)
	return *lane, e, ok
}

// noteOn notes a change to a lane, if it is still there.
func (b *book) noteOn(key laneKey, change func(*Ledger, *Lane)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(func(l *Ledger) {
		if lane := l.lane(key); lane != nil {
			change(l, lane)
		}
	})
}

// hold has a lane wait, for a reason that is not worth a write.
func (b *book) hold(key laneKey, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if lane := b.ledger.lane(key); lane != nil {
		lane.NotBefore = latest(lane.NotBefore, until)
	}
}

func (b *book) trouble(key laneKey) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if lane := b.ledger.lane(key); lane != nil {
		return lane.trouble()
	}
	return ""
}

// write writes what was noted. Where it fails, the Deliverer comes back to it.
func (b *book) write(ctx context.Context, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.flush(ctx)
	b.writeAt = time.Time{}
	if err != nil {
		b.writeAt = now.Add(lookAgain)
	}
	return err
}
