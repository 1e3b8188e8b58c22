package queue

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// Hosts makes the client of a Git host.
type Hosts interface {
	Host(provider, repository string, secret map[string][]byte) (report.Poster, error)
}

// Deliverer posts what is in a Queue. It runs only on the leader.
type Deliverer struct {
	Queue *Queue
	Hosts Hosts
	// Secrets reads past any cache: a token is read when a post is due, and not
	// kept.
	Secrets   client.Reader
	Namespace string
	// Grants say whether a Secret has to name the hosts that it is for.
	Grants grant.Policy
	// StillLeader returns an error when the lease is no longer ours.
	StillLeader func(context.Context) error
	// Trouble is called when what a NodeSync's hosts are in trouble with has
	// changed.
	Trouble func(types.NamespacedName)
	Now     func() time.Time
	// Jitter is a random number from 0 to 1.
	Jitter func() float64

	mu      sync.Mutex
	running map[laneOf]bool
}

// laneOf names a lane of a ledger.
type laneOf struct {
	name bookKey
	lane laneKey
}

const (
	// postTimeout bounds one exchange with a host.
	postTimeout = 15 * time.Second
	// writeTimeout bounds one write of a ledger.
	writeTimeout = 10 * time.Second
	// lookAgain is when what could not be read or written is tried again.
	lookAgain = 5 * time.Second
	// farewell is how long a post that is under way may take when the daemon is
	// stopped, so that it is not repeated by the next one.
	farewell = time.Second
)

// NeedLeaderElection has it run only on the leader.
func (*Deliverer) NeedLeaderElection() bool { return true }

// Start posts until the context ends.
func (d *Deliverer) Start(ctx context.Context) error {
	var rounds sync.WaitGroup
	defer rounds.Wait()
	loaded := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.Queue.woken:
		case <-timer.C:
		}
		if !loaded {
			if err := d.Queue.load(ctx, d.Namespace); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "commit statuses of before the start are posted later")
			} else {
				loaded = true
			}
		}
		due, wait := d.due()
		for _, lane := range due {
			rounds.Go(func() {
				defer d.Queue.wake()
				defer d.end(lane)
				d.round(ctx, lane)
			})
		}
		if !loaded {
			wait = lookAgain
		}
		timer.Reset(wait)
	}
}

// due takes the lanes that have something to post now, and says how long the
// others have to wait.
func (d *Deliverer) due() (lanes []laneOf, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		d.running = map[laneOf]bool{}
	}
	now := d.Now()
	wait = longestWait
	for _, b := range d.Queue.all() {
		for key, at := range b.due() {
			lane := laneOf{b.store.owner.bookKey, key}
			if d.running[lane] {
				continue // it wakes us at its end
			}
			if at.After(now) {
				wait = min(wait, at.Sub(now))
				continue
			}
			d.running[lane] = true
			lanes = append(lanes, lane)
		}
	}
	return lanes, wait
}

func (d *Deliverer) end(lane laneOf) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, lane)
}

// due is when each lane has something to post.
func (b *book) due() map[laneKey]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[laneKey]time.Time{}
	if !b.writeAt.IsZero() {
		all[laneKey{}] = b.writeAt // a round of no lane has but to write
	}
	for i := range b.ledger.Lanes {
		if at, any := b.ledger.Lanes[i].due(); any {
			all[b.ledger.Lanes[i].key()] = at
		}
	}
	return all
}
