package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The times of the leader's lease: a hand-over after a kill takes at most the
// lease and a retry.
const (
	leaseName     = "plumbline"
	leaseDuration = 10 * time.Second
	renewDeadline = 7 * time.Second
	retryPeriod   = 1500 * time.Millisecond
)

// newLease is the lease that replicas elect a leader with.
func newLease(config *rest.Config, namespace string) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the host's name for the lease: %w", err)
	}
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	return resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName, identity, config, renewDeadline)
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
		return fmt.Errorf("lease %s has run out", lease.Describe())
	}
	return nil
}
