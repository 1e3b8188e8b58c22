package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
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
		return fmt.Errorf("lease %s has run out", lease.Describe())
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

// writes says whether a request may change anything.
func writes(request *http.Request) bool {
	return request.Method != http.MethodGet && request.Method != http.MethodHead && request.Method != http.MethodOptions
}

// fenced is a configuration whose clients write nothing without the lease.
func fenced(config *rest.Config, stillLeader func(context.Context) error) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fence{next: next, stillLeader: stillLeader} })
	return config
}
