package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Durations of the leader's lease: after a kill, another replica leads within the lease duration and one retry; after a
// clean stop, within one retry. client-go adds up to 1.2 times its length to a retry (leaderelection.JitterFactor).
const (
	leaseName     = "plumbline"
	leaseDuration = 10 * time.Second
	renewDeadline = 7 * time.Second
	retryPeriod   = 800 * time.Millisecond
)

// newIdentity returns the identity with which this process holds the lease.
func newIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read the host's name for the lease: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// newLease returns the lease for leader election. It is not safe for concurrent use: the election uses one, and those
// who check the lease use another.
func newLease(config *rest.Config, namespace, identity string, seen *leaseSeen) (resourcelock.Interface, error) {
	who := resourcelock.ResourceLockConfig{Identity: identity}
	lease, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName, who, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("prepare the leader's lease: %w", err)
	}
	return newLastLease(lease, seen, config, namespace)
}

// leaseCheckValidFor is how long a positive check of the lease is valid: too short for the lease to pass to another
// replica, and long enough to share one check among many writes in a row.
const leaseCheckValidFor = time.Second

// stillLeader returns a check with the API server that this process holds the lease: one that was suspended past its
// expiry must not delete anything.
func stillLeader(lease resourcelock.Interface) func(context.Context) error {
	var mu sync.Mutex
	var asked time.Time
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(asked) < leaseCheckValidFor {
			return nil
		}
		now := time.Now()
		if err := held(ctx, lease, now); err != nil {
			return err
		}
		asked = now
		return nil
	}
}

// held returns an error unless this process holds the lease now.
func held(ctx context.Context, lease resourcelock.Interface, now time.Time) error {
	record, _, err := lease.Get(ctx)
	if err != nil {
		return fmt.Errorf("read lease %s: %w", lease.Describe(), err)
	}
	if record.HolderIdentity != lease.Identity() {
		return fmt.Errorf("lease %s is held by %q, no longer by this process", lease.Describe(), record.HolderIdentity)
	}
	lasts := time.Duration(record.LeaseDurationSeconds) * time.Second
	if now.After(record.RenewTime.Add(lasts)) {
		return fmt.Errorf("lease %s has expired", lease.Describe())
	}
	return nil
}

// leaseGuard checks before each write that this process holds the lease, and otherwise does not send it: a process that
// was frozen, or cut off, finds out at its first write that another replica leads.
type leaseGuard struct {
	next        http.RoundTripper
	stillLeader func(context.Context) error
}

// RoundTrip sends the request if it is allowed.
func (f *leaseGuard) RoundTrip(request *http.Request) (*http.Response, error) {
	if writes(request) {
		if err := f.stillLeader(request.Context()); err != nil {
			if request.Body != nil {
				err = errors.Join(err, request.Body.Close()) // a RoundTripper always closes it
			}
			return nil, fmt.Errorf("not sent: %w", err)
		}
	}
	return f.next.RoundTrip(request)
}

// writes reports whether a request may change anything.
func writes(request *http.Request) bool {
	return request.Method != http.MethodGet && request.Method != http.MethodHead && request.Method != http.MethodOptions
}

// withLeaseGuard returns a configuration whose clients write only while this process holds the lease.
func withLeaseGuard(config *rest.Config, stillLeader func(context.Context) error) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &leaseGuard{next: next, stillLeader: stillLeader}
	})
	return config
}

// releaseOld releases a stale lease for a daemon without leader election: otherwise the commands would see a lease that
// is not renewed, and report that no daemon leads.
type releaseOld struct {
	lease resourcelock.Interface
	// every is the interval between checks; a lease not renewed between two of them is released.
	every time.Duration
}

// Start checks the lease until it is released or missing.
func (r releaseOld) Start(ctx context.Context) error {
	var last *resourcelock.LeaderElectionRecord
	for {
		found, _, err := r.lease.Get(ctx)
		switch {
		case apierrors.IsNotFound(err), err == nil && found.HolderIdentity == "":
			return nil
		case err != nil:
			ctrl.Log.V(1).Info("whether an old lease is left is unknown", "error", err.Error())
		case last != nil && found.HolderIdentity == last.HolderIdentity && found.RenewTime.Equal(&last.RenewTime):
			now := metav1.Now()
			released := resourcelock.LeaderElectionRecord{
				LeaderTransitions: found.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
			}
			if err := r.lease.Update(ctx, released); err != nil {
				ctrl.Log.V(1).Info("the old lease is not released", "error", err.Error())
			}
		default:
			seen := *found
			last = &seen
		}
		again := time.NewTimer(r.every)
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case <-again.C:
		}
	}
}

// maxRenewInterval is the maximum time that a healthy leader takes to renew its lease.
const maxRenewInterval = 3 * retryPeriod

// leaderMissing returns that no daemon leads in a namespace, so that its statuses may be out of date; empty if one
// does, or if that is unknown: without --leader-elect there is no lease, or a released one from earlier (stopped), and
// not everybody may read it. A daemon renews its lease within leaseDuration, whatever duration a lease that another client
// wrote contains.
func leaderMissing(ctx context.Context, c client.Reader, namespace string, now func() time.Time) string {
	first, ok := readLease(ctx, c, namespace)
	if !ok {
		return ""
	}
	if holder := first.Spec.HolderIdentity; holder == nil || *holder == "" {
		if !stopped(ctx, c, namespace) {
			return ""
		}
		return fmt.Sprintf("no daemon leads: lease %s/%s was released, and no pod of plumbline is Ready there", namespace, leaseName)
	}
	if renewedWithin(first, now(), leaseDuration) {
		return ""
	}
	// The renew time may come from another clock: a lease that is still being renewed is held.
	again := time.NewTimer(maxRenewInterval)
	defer again.Stop()
	select {
	case <-ctx.Done():
		return ""
	case <-again.C:
	}
	second, ok := readLease(ctx, c, namespace)
	if !ok || !second.Spec.RenewTime.Equal(first.Spec.RenewTime) {
		return ""
	}
	holder := *first.Spec.HolderIdentity
	if lasts := time.Duration(ptr.Deref(first.Spec.LeaseDurationSeconds, 0)) * time.Second; lasts > leaseDuration &&
		renewedWithin(first, now(), lasts) {
		return fmt.Sprintf("no daemon leads: %[3]s does not renew lease %[1]s/%[2]s, which keeps others from leading for %[4]s (if %[3]s no longer runs: kubectl delete lease %[2]s -n %[1]s)", namespace, leaseName, holder, short(lasts))
	}
	return fmt.Sprintf("no daemon leads: lease %s/%s of %s %s", namespace, leaseName, holder, renewed(first, now()))
}

// stopped reports whether a daemon that has released its lease was not followed by another one; false if that is unknown.
// It is known only in a namespace with a Deployment of plumbline whose daemons elect a leader: one without
// --leader-elect, or outside of the cluster, leaves the lease as it is.
func stopped(ctx context.Context, c client.Reader, namespace string) bool {
	deployments := &appsv1.DeploymentList{}
	err := c.List(ctx, deployments, client.InNamespace(namespace), client.MatchingLabels(daemonLabels()))
	return err == nil && slices.ContainsFunc(deployments.Items, electsLeader) && noReadyPod(ctx, c, namespace)
}

// electsLeader reports whether the daemons of a Deployment run with --leader-elect.
func electsLeader(deployment appsv1.Deployment) bool {
	return slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(container corev1.Container) bool {
		args := slices.Concat(container.Command, container.Args)
		return slices.Contains(args, "run") && (slices.Contains(args, "--leader-elect") || slices.Contains(args, "--leader-elect=true"))
	})
}

// daemonLabels select the daemon's Deployment and pods.
func daemonLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "plumbline"}
}

// noReadyPod reports whether no pod of plumbline is Ready in a namespace; false if that is unknown.
func noReadyPod(ctx context.Context, c client.Reader, namespace string) bool {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(daemonLabels())); err != nil {
		return false
	}
	return !slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
}

// followedByOld adds to the result of leaderMissing that the statuses which a command prints after it may be out of date.
func followedByOld(message string) string { return message + "; the following may be out of date" }

// renewedWithin reports whether, by this machine's clock, a lease was renewed at most this long ago. A time further
// ahead than that does not count.
func renewedWithin(lease *coordinationv1.Lease, now time.Time, lasts time.Duration) bool {
	renew := lease.Spec.RenewTime
	return renew != nil && now.Sub(renew.Time).Abs() < lasts
}

func readLease(ctx context.Context, c client.Reader, namespace string) (*coordinationv1.Lease, bool) {
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease)
	return lease, err == nil
}

// renewed describes when a lease was last held.
func renewed(lease *coordinationv1.Lease, now time.Time) string {
	if lease.Spec.RenewTime == nil {
		return "has expired"
	}
	ago := now.Sub(lease.Spec.RenewTime.Time).Truncate(time.Second)
	if ago < 0 {
		return fmt.Sprintf("is not renewed; its renewTime is %s ahead of this machine's clock", short(-ago))
	}
	return fmt.Sprintf("expired %s ago", short(ago))
}

// lastLease is a lease that may be deleted with its namespace. Nothing can be created in a terminating namespace, so
// the replica that held the lease when it was deleted leads until its process exits: it has to finalize the NodeSyncs
// that are deleted with the namespace.
type lastLease struct {
	resourcelock.Interface
	// namespaceGoes reports whether the lease's namespace is being deleted.
	namespaceGoes func(context.Context) (bool, error)
	now           func() time.Time
	seen          *leaseSeen
}

// leaseSeen is what this process last saw of its lease. The election that renews it and the checks that read it share
// it, because a check may not have read the lease for a while.
type leaseSeen struct {
	mu sync.Mutex
	// ours is the record as last seen, if this process held it then.
	ours *resourcelock.LeaderElectionRecord
	// holder is the last known holder.
	holder string
	// gone is true if the lease was deleted while this process held it.
	gone bool
}

func newLastLease(lease resourcelock.Interface, seen *leaseSeen, config *rest.Config, namespace string) (*lastLease, error) {
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for namespace %s: %w", namespace, err)
	}
	return &lastLease{Interface: lease, seen: seen, now: time.Now, namespaceGoes: func(ctx context.Context) (bool, error) {
		found, err := core.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("read namespace %s: %w", namespace, err)
		}
		return isTerminating(found), nil
	}}, nil
}

func isTerminating(namespace *corev1.Namespace) bool { return namespace.DeletionTimestamp != nil }

// Get returns the record; the last known one if the lease was deleted while this process held it.
func (l *lastLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if last := l.seen.last(l.now()); last != nil {
		return encoded(*last)
	}
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case err == nil:
		l.seen.note(*record, l.Identity())
		return record, raw, nil
	case !l.seen.held(l.now()) || !deleted(err):
		return nil, nil, err
	}
	goes, unknown := l.namespaceGoes(ctx)
	if unknown != nil || !goes {
		return nil, nil, err
	}
	if !l.seen.noteDeleted() {
		return nil, nil, err
	}
	return encoded(*l.seen.last(l.now()))
}

// deleted reports whether an error may mean that the lease was deleted with its namespace. The Role that allows reading
// it is in the same namespace, and may be deleted first.
func deleted(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }

// Create creates the lease.
func (l *lastLease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.seen.note(record, l.Identity())
	}
	return err
}

// Update renews or releases the lease. For a deleted lease, it only remembers the record.
func (l *lastLease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.seen.last(l.now()) != nil {
		return nil
	}
	err := l.Interface.Update(ctx, record)
	if err == nil {
		l.seen.note(record, l.Identity())
	}
	return err
}

func encoded(record resourcelock.LeaderElectionRecord) (*resourcelock.LeaderElectionRecord, []byte, error) {
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the record of the lease: %w", err)
	}
	return &record, raw, nil
}

// note remembers a record that the API server has stored.
func (s *leaseSeen) note(record resourcelock.LeaderElectionRecord, identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	s.ours, s.holder = nil, record.HolderIdentity
	if record.HolderIdentity == identity {
		s.ours = &record
	}
}

// leader returns the last known holder; empty if there was none.
func (s *leaseSeen) leader() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder
}

// held reports whether no other replica can have held the lease before it was deleted, because it had not expired.
func (s *leaseSeen) held(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ours != nil && now.Before(s.ours.RenewTime.Add(time.Duration(s.ours.LeaseDurationSeconds)*time.Second))
}

// noteDeleted notes that the lease was deleted while this process held it; false if another replica holds it by now.
func (s *leaseSeen) noteDeleted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = s.ours != nil
	return s.gone
}

// last returns the last record of a deleted lease; nil if it was not deleted.
func (s *leaseSeen) last(now time.Time) *resourcelock.LeaderElectionRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		return nil
	}
	record := *s.ours
	record.RenewTime = metav1.NewTime(now)
	return &record
}
