package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

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

// The times of the leader's lease: a hand-over after a kill takes at most the
// lease and a retry, and one after a clean stop a retry. client-go makes a retry
// longer by up to 1.2 times itself (leaderelection.JitterFactor).
const (
	leaseName     = "plumbline"
	leaseDuration = 10 * time.Second
	renewDeadline = 7 * time.Second
	retryPeriod   = 800 * time.Millisecond
)

// newIdentity is by what this process is known to hold the lease.
func newIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read the host's name for the lease: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// newLease is the lease that replicas elect a leader with. It is not for use by
// two at a time: the election has one, and who asks about it has another.
func newLease(config *rest.Config, namespace, identity string, seen *leaseSeen) (resourcelock.Interface, error) {
	who := resourcelock.ResourceLockConfig{Identity: identity}
	lease, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName, who, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("prepare the leader's lease: %w", err)
	}
	return newLastLease(lease, seen, config, namespace)
}

// trusted is how long a good answer about the lease is good for: so short that
// the lease cannot have passed to another in between, and long enough that many
// writes in a row do not ask each time.
const trusted = time.Second

// stillLeader asks the API server whether the lease is ours: a process that
// slept through it must not delete anything.
func stillLeader(lease resourcelock.Interface) func(context.Context) error {
	var mu sync.Mutex
	var asked time.Time
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(asked) < trusted {
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

// held returns an error unless the lease is ours now.
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

// fence asks before each write whether the lease is ours, and sends none when it
// is not: a process that was frozen, or cut off, finds out at its first write that
// another replica leads.
type fence struct {
	next        http.RoundTripper
	stillLeader func(context.Context) error
}

// RoundTrip sends a request that may be sent.
func (f *fence) RoundTrip(request *http.Request) (*http.Response, error) {
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

// fenced is a configuration whose clients write nothing without the lease.
func fenced(config *rest.Config, stillLeader func(context.Context) error) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fence{next: next, stillLeader: stillLeader} })
	return config
}

// releaseOld releases the lease of a daemon that is gone, for one that elects no leader: by a lease that nobody renews, the
// commands would report that no daemon leads.
type releaseOld struct {
	lease resourcelock.Interface
	// every is how long a lease is not renewed until it is released.
	every time.Duration
}

// Start looks at the lease until it is released, or there is none.
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
			released := resourcelock.LeaderElectionRecord{LeaderTransitions: found.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now}
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

// pulse is how long a daemon that leads takes at most to renew its lease, when all is
// well.
const pulse = 3 * retryPeriod

// unled reports that no daemon leads in a namespace, so that what statuses say there is of
// before; empty if one does, or nobody can tell: without --leader-elect there is no
// lease or a released one of before, and not everybody may read it. A daemon renews its lease
// within leaseDuration, whatever duration stands in a lease that another has written.
func unled(ctx context.Context, c client.Reader, namespace string, now func() time.Time) string {
	first, ok := readLease(ctx, c, namespace)
	if !ok {
		return ""
	}
	if holder := first.Spec.HolderIdentity; holder == nil || *holder == "" {
		return "" // who stopped in peace may have been followed by one without --leader-elect
	}
	if renewedWithin(first, now(), leaseDuration) {
		return ""
	}
	// Its time may be that of another clock: one that is still renewed is held.
	again := time.NewTimer(pulse)
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
	if lasts := time.Duration(ptr.Deref(first.Spec.LeaseDurationSeconds, 0)) * time.Second; lasts > leaseDuration && renewedWithin(first, now(), lasts) {
		return fmt.Sprintf("no daemon leads: %[3]s does not renew lease %[1]s/%[2]s, which keeps others from leading for %[4]s; if %[3]s no longer runs: kubectl delete lease %[2]s -n %[1]s", namespace, leaseName, holder, short(lasts))
	}
	return fmt.Sprintf("no daemon leads: lease %s/%s of %s %s", namespace, leaseName, holder, renewed(first, now()))
}

// renewedWithin reports whether by our clock a lease was renewed so long ago at most. A time that lies
// further ahead than that is nobody's.
func renewedWithin(lease *coordinationv1.Lease, now time.Time, lasts time.Duration) bool {
	renew := lease.Spec.RenewTime
	return renew != nil && now.Sub(renew.Time).Abs() < lasts
}

func readLease(ctx context.Context, c client.Reader, namespace string) (*coordinationv1.Lease, bool) {
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease)
	return lease, err == nil
}

// renewed says when a lease was held last.
func renewed(lease *coordinationv1.Lease, now time.Time) string {
	if lease.Spec.RenewTime == nil {
		return "has expired"
	}
	ago := now.Sub(lease.Spec.RenewTime.Time).Truncate(time.Second)
	if ago < 0 {
		return fmt.Sprintf("is not renewed; its renewTime is %s ahead of this machine's clock", short(-ago))
	}
	return fmt.Sprintf("expired %s ago; the following was current at that time", short(ago))
}

// lastLease is a lease that may be deleted with its namespace. Nothing can be created in a
// namespace that is being deleted, so that the replica that held the lease when it went leads until
// its process ends: it is left to conclude the NodeSyncs that are deleted with the namespace.
type lastLease struct {
	resourcelock.Interface
	// namespaceGoes asks whether the lease's namespace is being deleted.
	namespaceGoes func(context.Context) (bool, error)
	now           func() time.Time
	seen          *leaseSeen
}

// leaseSeen is what this process has seen of its lease: the election renews it, and who
// asks whether it is held may not have asked for a while.
type leaseSeen struct {
	mu sync.Mutex
	// ours is the record as it was seen last, where it was ours then.
	ours *resourcelock.LeaderElectionRecord
	// holder is whose it was when it was seen last.
	holder string
	// gone reports whether the lease went while it was ours.
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
		return goes(found), nil
	}}, nil
}

func goes(namespace *corev1.Namespace) bool { return namespace.DeletionTimestamp != nil }

// Get reads the record: the last one, where the lease went while it was ours.
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
	if !l.seen.lose() {
		return nil, nil, err
	}
	return encoded(*l.seen.last(l.now()))
}

// deleted says of an error that the lease may be gone with its namespace. The right to read
// it, a Role of the same namespace, goes with it, too, in no order.
func deleted(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }

// Create makes the lease.
func (l *lastLease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.seen.note(record, l.Identity())
	}
	return err
}

// Update renews the lease, or gives it up. One that is gone is only remembered.
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

// note notes a record that the API server has.
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

// leader is who held it when it was seen last; empty if nobody did.
func (s *leaseSeen) leader() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder
}

// held reports whether nobody else can have held the lease before it went: it had not run out.
func (s *leaseSeen) held(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ours != nil && now.Before(s.ours.RenewTime.Add(time.Duration(s.ours.LeaseDurationSeconds)*time.Second))
}

// lose notes that the lease went while it was ours; false if it is another's by now.
func (s *leaseSeen) lose() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = s.ours != nil
	return s.gone
}

// last is the record of a lease that is gone; nil of one that is not.
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
