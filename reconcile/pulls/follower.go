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
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// Hosts makes the client of a Git host.
type Hosts interface {
	Reviewer(provider, repository string, secret map[string][]byte, comments bool) (report.Reviewer, error)
}

// Source fetches revisions.
type Source interface {
	Fetch(ctx context.Context, req source.Request) (*render.Snapshot, time.Time, error)
	FindOrder(ctx context.Context, req source.Request, commit string) (source.Order, error)
	Forget(key string) error
}

// Queue keeps statuses until their hosts have them.
type Queue interface {
	SayHeads(ctx context.Context, sync *v1alpha1.NodeSync, h queue.Heads) (changed bool, err error)
	Heads(ctx context.Context, sync *v1alpha1.NodeSync, of queue.Host) ([]queue.Commit, error)
}

// Options say what a Follower works with.
type Options struct {
	// Cached reads the NodeSyncs, and Secrets what they name, past any cache.
	Cached, Secrets client.Reader
	Namespace       string
	Hosts           Hosts
	Source          Source
	Queue           Queue
	// Preview has a plan made.
	Preview review.Tools
	Grants  grant.Policy
	// StillLeader returns an error when the lease is no longer ours.
	StillLeader func(context.Context) error
	// Trouble is called when what keeps pull requests from being known has changed.
	Trouble func(types.NamespacedName)
	Now     func() time.Time
}

// Follower follows pull requests. Make it with New.
type Follower struct {
	Options
	limits *limits
	woken  chan struct{}
	// make has a plan made.
	make func(*review.Step, context.Context) (*review.Preview, error)

	mu    sync.Mutex
	poked map[types.NamespacedName]bool

	// What follows belongs to Start.
	followed map[place]*repository
	dropped  map[types.UID]bool
}

// place is a host of a NodeSync.
type place struct {
	types.NamespacedName
	provider, url string
}

const (
	// longestSleep is how long it looks at nothing.
	longestSleep = 30 * time.Second
	// lookAgain is when what could not be read or written in the cluster is tried again.
	lookAgain = 10 * time.Second
)

// New makes a Follower.
func New(o Options) *Follower {
	return &Follower{
		Options: o, limits: newLimits(), make: (*review.Step).Make, woken: make(chan struct{}, 1), poked: map[types.NamespacedName]bool{},
		followed: map[place]*repository{}, dropped: map[types.UID]bool{},
	}
}

// NeedLeaderElection has it run only on the leader.
func (*Follower) NeedLeaderElection() bool { return true }

// Look has the pull requests of NodeSyncs listed soon: their host has told of something. It
// never blocks.
func (f *Follower) Look(names []types.NamespacedName) {
	f.mu.Lock()
	for _, name := range names {
		f.poked[name] = true
	}
	f.mu.Unlock()
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// Start follows until the context ends.
func (f *Follower) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.woken:
		case <-timer.C:
		}
		timer.Reset(f.turn(ctx))
	}
}

// turn lists what is due and makes one plan. It says when the next turn is.
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
			f.say(ctx, r)
		}
	}
	one, wait := f.next()
	if one == nil {
		return wait
	}
	f.plan(ctx, one)
	f.say(ctx, one.of)
	f.comment(ctx, one)
	return 0
}

// note takes the NodeSyncs as they are now.
func (f *Follower) note(syncs []v1alpha1.NodeSync) {
	f.mu.Lock()
	poked := f.poked
	f.poked = map[types.NamespacedName]bool{}
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
			host := queue.HostOf(s, to)
			at := place{client.ObjectKeyFromObject(s), host.Provider, host.URL}
			there[at] = true
			if known := f.followed[at]; known == nil || known.sync.UID != s.UID {
				f.followed[at] = &repository{}
			}
			f.followed[at].take(s, to, host, poked[at.NamespacedName], f.Now())
		}
	}
	for at := range f.followed {
		if !there[at] {
			delete(f.followed, at)
		}
	}
}

// ready reports whether a reconcile has seen the cluster, and what is in force there is known.
func ready(s *v1alpha1.NodeSync) bool {
	return s.DeletionTimestamp.IsZero() && !s.Rests() && s.Status.ObservedGeneration == s.Generation &&
		s.Status.Karpenter != nil && s.Status.Karpenter.Cluster != "" && s.Status.LastAppliedRevision != ""
}

// stop has the statuses go that a NodeSync has no wish for any more.
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
	if _, err := f.Queue.SayHeads(ctx, s, queue.Heads{Context: contextOf(s), At: f.Now()}); err == nil {
		f.dropped[s.UID] = true
	}
}

// contextOf is that of the statuses of a NodeSync on the whole.
func contextOf(s *v1alpha1.NodeSync) string {
	cluster := s.Namespace
	if k := s.Status.Karpenter; k != nil && k.Cluster != "" {
		cluster = k.Cluster
	}
	return queue.ContextOf(cluster, s.Name)
}

// secret reads what a host is opened with, if it may be sent there.
func (f *Follower) secret(ctx context.Context, s *v1alpha1.NodeSync, name, address string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := f.Secrets.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, secret); err != nil {
		return nil, err
	}
	return secret, f.Grants.Check(secret, grant.Use{NodeSync: s.Name, Address: address})
}
