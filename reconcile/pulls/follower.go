package pulls

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// Hosts returns the client of a Git host.
type Hosts interface {
	Reviewer(provider, repository string, secret map[string][]byte, comments bool) (report.Reviewer, error)
}

// Source fetches revisions.
type Source interface {
	Fetch(ctx context.Context, req source.Request) (*render.Snapshot, time.Time, error)
	FindOrder(ctx context.Context, req source.Request, commit string) (source.Order, error)
	Forget(key string) error
	fetch.FleetSource
}

// Queue keeps statuses until their hosts have them.
type Queue interface {
	RecordHeads(ctx context.Context, sync *v1alpha1.NodeSync, h report.Heads) (changed bool, err error)
	Heads(ctx context.Context, sync *v1alpha1.NodeSync, of report.Host) ([]report.Commit, map[int]report.Comment, error)
}

// Options are the dependencies of a Follower.
type Options struct {
	// Cached reads the NodeSyncs, and Secrets reads the Secrets that they reference without a cache.
	Cached, Secrets client.Reader
	Namespace       string
	Hosts           Hosts
	Source          Source
	Queue           Queue
	// Preview makes plans.
	Preview review.Tools
	Grants  grant.Policy
	// StillLeader returns an error if this process no longer holds the lease.
	StillLeader func(context.Context) error
	// Trouble is called when the error that prevents access to pull requests has changed.
	Trouble func(types.NamespacedName)
	Now     func() time.Time
}

// Follower follows pull requests. Create it with New.
type Follower struct {
	Options
	limits *limits
	woken  chan struct{}
	// make makes a plan.
	make func(*review.Step, context.Context) (*review.Preview, error)
	// begin runs a function in the background.
	begin   func(func())
	workers sync.WaitGroup
	// forkPlanned receives the plan of a pull request from a fork.
	forkPlanned chan planned

	mu            sync.Mutex
	eventReceived map[types.NamespacedName]bool

	// Only Start uses these fields.
	followed map[place]*repository
	dropped  map[types.UID]bool
	// planningFork reports whether a pull request from a fork is being planned.
	planningFork bool
}

// place is a Git host of a NodeSync.
type place struct {
	types.NamespacedName
	provider, url string
}

const (
	// longestSleep is the longest time without a turn.
	longestSleep = 30 * time.Second
	// lookAgain is the time after which a failed read or write in the cluster is retried.
	lookAgain = 10 * time.Second
)

// New returns a Follower.
func New(o Options) *Follower {
	f := &Follower{
		Options: o, limits: newLimits(), make: (*review.Step).Make, woken: make(chan struct{}, 1), eventReceived: map[types.NamespacedName]bool{},
		forkPlanned: make(chan planned, 1), followed: map[place]*repository{}, dropped: map[types.UID]bool{},
	}
	f.begin = f.workers.Go
	return f
}

// NeedLeaderElection returns true: the Follower runs only on the leader.
func (*Follower) NeedLeaderElection() bool { return true }

// Look requests that the pull requests of NodeSyncs are listed soon, because their host has sent an event. It
// never blocks.
func (f *Follower) Look(names []types.NamespacedName) {
	f.mu.Lock()
	for _, name := range names {
		f.eventReceived[name] = true
	}
	f.mu.Unlock()
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// Start follows pull requests until the context is done.
func (f *Follower) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer f.workers.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case made := <-f.forkPlanned:
			f.concludeFork(ctx, made)
		case <-f.woken:
		case <-timer.C:
		}
		timer.Reset(f.turn(ctx))
	}
}

// turn lists what is due, starts to plan one pull request from a fork unless one is being planned, and plans one of the
// repository's own. It returns the time until the next turn.
func (f *Follower) turn(ctx context.Context) time.Duration {
	list := &v1alpha1.NodeSyncList{}
	if err := f.Cached.List(ctx, list, client.InNamespace(f.Namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "pull requests are looked at later")
		return lookAgain
	}
	f.note(list.Items)
	for i := range list.Items {
		f.stop(ctx, &list.Items[i])
	}
	for _, r := range f.followed {
		if !f.Now().Before(r.listAt) {
			f.list(ctx, r)
			f.report(ctx, r)
		}
	}
	wait := longestSleep
	if !f.planningFork {
		fork, later := f.next(true)
		if wait = later; fork != nil {
			f.planFork(ctx, fork)
		}
	}
	own, later := f.next(false)
	if own == nil {
		return min(wait, later)
	}
	f.conclude(ctx, f.plan(ctx, own))
	return 0
}

// note records the current NodeSyncs.
func (f *Follower) note(syncs []v1alpha1.NodeSync) {
	f.mu.Lock()
	poked := f.eventReceived
	f.eventReceived = map[types.NamespacedName]bool{}
	f.mu.Unlock()
	there := map[place]bool{}
	for i := range syncs {
		s := &syncs[i]
		if !ready(s) {
			continue
		}
		for _, to := range s.Spec.Report {
			if to.PullRequests == nil {
				continue
			}
			host := report.HostOf(s, to)
			at := place{client.ObjectKeyFromObject(s), host.Provider, host.URL}
			there[at] = true
			if known := f.followed[at]; known == nil || known.sync.UID != s.UID {
				f.followed[at] = &repository{ours: map[int]report.Comment{}}
			}
			f.followed[at].update(s, to, host, poked[at.NamespacedName], f.Now())
		}
	}
	for at := range f.followed {
		if !there[at] {
			delete(f.followed, at)
		}
	}
}

// ready reports whether a reconcile has observed the cluster and recorded what is applied there.
func ready(s *v1alpha1.NodeSync) bool {
	return s.DeletionTimestamp.IsZero() && !s.IsPaused() && s.Status.ObservedGeneration == s.Generation &&
		s.Status.Karpenter != nil && s.Status.Karpenter.Cluster != "" && s.Status.LastAppliedRevision != ""
}

// stop drops the statuses that a NodeSync no longer requests.
func (f *Follower) stop(ctx context.Context, s *v1alpha1.NodeSync) {
	wants := false
	for _, to := range s.Spec.Report {
		wants = wants || to.PullRequests != nil && s.Spec.Source.Git != nil
	}
	if wants || !s.DeletionTimestamp.IsZero() {
		delete(f.dropped, s.UID)
		return
	}
	if f.dropped[s.UID] {
		return
	}
	if _, err := f.Queue.RecordHeads(ctx, s, report.Heads{Context: contextOf(s), At: f.Now()}); err == nil {
		f.dropped[s.UID] = true
	}
}

// contextOf returns the context of the statuses on a NodeSync as a whole.
func contextOf(s *v1alpha1.NodeSync) string {
	cluster := s.Namespace
	if k := s.Status.Karpenter; k != nil && k.Cluster != "" {
		cluster = k.Cluster
	}
	return report.ContextOf(cluster, s.Name)
}

// secret reads the Secret with a host's credentials, and checks whether it may be sent there.
func (f *Follower) secret(ctx context.Context, s *v1alpha1.NodeSync, name, address string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := f.Secrets.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, secret); err != nil {
		return nil, err
	}
	return secret, f.Grants.Check(secret, grant.Use{NodeSync: s.Name, Address: address})
}
