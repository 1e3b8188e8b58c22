package recorder

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// Recorder records the NodeClaims that end. It runs only on the leader.
type Recorder struct {
	Options

	ring  ring
	woken chan struct{}
	// kept is what Kept shows.
	kept shelf

	// What the watch tells, and the loop reads.
	mu   sync.Mutex
	seen map[types.UID]*ending
	// known are the pools that the loop has looked at.
	known map[string]bool
	// heard says that the watch runs.
	heard bool

	// What only the loop knows.
	books  map[types.NamespacedName]*book
	pools  map[string]pool
	wrote  time.Time
	loaded bool
	// counts bounds how many nodes' pods are counted.
	counts *rate.Limiter
}

// Options are what a Recorder works with.
type Options struct {
	// Cached reads NodeSyncs and NodePools out of the watch cache.
	Cached client.Reader
	// Uncached reads ConfigMaps, Karpenter's events, Nodes and their pods.
	Uncached client.Reader
	Writer   client.Writer
	// EC2 returns the client of a region. It makes no request.
	EC2       func(ctx context.Context, region string) (EC2, error)
	Namespace string
	Now       func() time.Time
}

// New makes a Recorder that has heard of nothing.
func New(o Options) *Recorder {
	return &Recorder{
		Options: o, ring: usual, woken: make(chan struct{}, 1),
		seen: map[types.UID]*ending{}, known: map[string]bool{},
		books: map[types.NamespacedName]*book{}, pools: map[string]pool{}, counts: rate.NewLimiter(countsRate, countsBurst),
	}
}

// ending is a NodeClaim that ends, or has ended just now.
type ending struct {
	facts   Facts
	poolUID types.UID

	// of is whose it is; zero where its pool belongs to no NodeSync. looked says that what
	// was so when its deletion began is in facts.
	of     owner
	looked bool
	// asks is when EC2 may be asked about it again.
	asks time.Time
	// before is what an earlier leader has written of it.
	before *Record
	// seq is its number, where numbered, and body the line that is written of it, without that;
	// unsaved says that there is more to write.
	seq      int
	numbered bool
	body     string
	unsaved  bool
}

const (
	// pause is the least time between two looks at what the watch tells.
	pause = 500 * time.Millisecond
	// batch is the least time between two writes.
	batch = 5 * time.Second
	// settles is how long after its end a Record may still change: Karpenter sends its events
	// after it has deleted.
	settles = 10 * time.Second
	// heartbeat is how often it is written that nothing has ended.
	heartbeat = 5 * time.Minute
	// lag is how much later than it ends a NodeClaim may be seen to.
	lag = 2 * time.Second
	// timeout bounds one round, and farewell the last one.
	timeout  = 30 * time.Second
	farewell = 3 * time.Second
	// mostUnwritten is how many NodeClaims that are gone wait at most to be written.
	mostUnwritten = 4000
)

// See is called with each NodeClaim that the watch has news of. It never blocks for long.
func (r *Recorder) See(claim *karpv1.NodeClaim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = true
	if claim.DeletionTimestamp != nil {
		r.note(claim)
	} else if r.known[claim.Labels[karpv1.NodePoolLabelKey]] {
		return
	}
	r.wake()
}

// Gone is called with each NodeClaim that is gone, as it was seen last; missed says that it was
// not watched how.
func (r *Recorder) Gone(claim *karpv1.NodeClaim, missed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = true
	e := r.note(claim)
	now := metav1.NewTime(r.Now()).Rfc3339Copy()
	e.facts.Gone, e.facts.Missed, e.facts.Late = now, missed, missed
	if e.facts.Deleted.IsZero() {
		e.facts.Deleted = now // it had no finalizer
	}
	r.wake()
}

// note takes what a NodeClaim says of itself.
func (r *Recorder) note(claim *karpv1.NodeClaim) *ending {
	e := r.seen[claim.UID]
	if e == nil {
		e = &ending{poolUID: observe.NodeClaim(claim).PoolUID}
		e.facts.Terminate = terminateAt(claim)
		r.seen[claim.UID] = e
	}
	known := e.facts.Record
	e.facts.Record = RecordOf(claim)
	e.facts.Revision, e.facts.ByRevision, e.facts.Pods = known.Revision, known.ByRevision, known.Pods
	e.facts.DisruptionReason, e.facts.Launching, e.facts.Image = "", "", claim.Status.ImageID
	for _, c := range claim.Status.Conditions {
		holds := c.Status == metav1.ConditionTrue
		switch {
		case c.Type == karpv1.ConditionTypeDisruptionReason && holds:
			e.facts.DisruptionReason = c.Reason
		case c.Type == karpv1.ConditionTypeDrifted && holds:
			e.facts.DriftReason = c.Reason
		case c.Type == karpv1.ConditionTypeLaunched && !holds:
			e.facts.Launching = c.Reason
		}
	}
	if after := claim.Spec.ExpireAfter.Duration; after != nil {
		e.facts.ExpireAfter = *after
	}
	return e
}

// terminateAt is the annotation by which Karpenter's repair ends a NodeClaim at once. Of one that
// has a terminationGracePeriod Karpenter writes it later.
func terminateAt(claim *karpv1.NodeClaim) time.Time {
	at, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey])
	if err != nil {
		return time.Time{} // it has none
	}
	return at
}

func (r *Recorder) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// NeedLeaderElection has it run only on the leader.
func (*Recorder) NeedLeaderElection() bool { return true }

// Start records until the context ends.
func (r *Recorder) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := r.Now()
	for {
		select {
		case <-ctx.Done():
			ending, stop := context.WithTimeout(context.WithoutCancel(ctx), farewell)
			defer stop()
			if _, err := r.round(ending, true); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "what has ended last may not be recorded")
			}
			return nil
		case <-r.woken:
			if soon := r.Now().Add(pause); soon.Before(next) {
				next = soon
				timer.Reset(pause)
				r.countFirst(ctx)
			}
			continue
		case <-timer.C:
		}
		wait := r.once(ctx)
		next = r.Now().Add(wait)
		timer.Reset(wait)
	}
}

// once is a round whose errors are logged, and says when the next one is due.
func (r *Recorder) once(ctx context.Context) time.Duration {
	bounded, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	wait, err := r.round(bounded, false)
	if err != nil {
		if ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "ended nodes are recorded later")
		}
		return batch
	}
	return wait
}
