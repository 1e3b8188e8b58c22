package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

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
	// gone says that the lease went while it was ours.
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

// leader is who held it when it was seen last; empty where nobody did.
func (s *leaseSeen) leader() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder
}

// held says that nobody else can have held the lease before it went: it had not run out.
func (s *leaseSeen) held(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ours != nil && now.Before(s.ours.RenewTime.Add(time.Duration(s.ours.LeaseDurationSeconds)*time.Second))
}

// lose notes that the lease went while it was ours; false where it is another's by now.
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
