package notify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/redact"
)

const (
	// maxWaiting is how many Notices wait for one receiver; the oldest is dropped for another.
	maxWaiting = 32
	// maxFailures is how many failures of one NodeSync wait to be reported.
	maxFailures = 8
	// longest is the longest wait that a receiver may ask for.
	longest = 10 * time.Minute
	// maxFailure is how long the words of a failure are, in bytes.
	maxFailure = 256
)

// delays are before the second attempt, and so on: six in all, within ten minutes.
func delays() []time.Duration {
	return []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute}
}

// Sender posts Notices beside the passes. It may be used by several goroutines.
type Sender struct {
	// Secrets reads past the cache.
	Secrets client.Reader
	// Grants say to which hosts one may be sent.
	Grants grant.Policy
	// Pause waits; an error ends the attempts. Nil waits for real.
	Pause func(context.Context, time.Duration) error

	mu     sync.Mutex
	lanes  map[receiver][]waiting
	failed map[types.NamespacedName][]string
}

// receiver is one of a NodeSync's.
type receiver struct {
	sync types.NamespacedName
	name string
}

// waiting is a Notice that is to be sent.
type waiting struct {
	to     v1alpha1.Notify
	notice Notice
}

// Send has the receivers of a NodeSync that want the Notices get them. It returns at once.
func (s *Sender) Send(ctx context.Context, to []v1alpha1.Notify, notices []Notice) {
	for _, n := range notices {
		for _, t := range to {
			if n.For(t) && adapters()[t.Type].body(n) != nil {
				s.enqueue(context.WithoutCancel(ctx), receiver{n.NodeSync, t.Name}, waiting{t, n})
			}
		}
	}
}

func (s *Sender) enqueue(ctx context.Context, at receiver, w waiting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lanes == nil {
		s.lanes = map[receiver][]waiting{}
	}
	lane, runs := s.lanes[at]
	if len(lane) == maxWaiting {
		s.fail(at, lane[1].notice, fmt.Errorf("%d others wait for it", maxWaiting))
		lane = append(lane[:1:1], lane[2:]...) // the first is being sent
	}
	s.lanes[at] = append(lane, w)
	if !runs {
		go s.run(ctx, at)
	}
}

// run empties the lane of one receiver, in order.
func (s *Sender) run(ctx context.Context, at receiver) {
	for {
		s.mu.Lock()
		if len(s.lanes[at]) == 0 {
			delete(s.lanes, at)
			s.mu.Unlock()
			return
		}
		w := s.lanes[at][0]
		s.mu.Unlock()
		err := s.deliver(ctx, w)
		s.mu.Lock()
		if err != nil {
			s.fail(at, w.notice, err)
		}
		s.lanes[at] = s.lanes[at][1:]
		s.mu.Unlock()
	}
}

// deliver makes attempts until one succeeds, or no other is worth it.
func (s *Sender) deliver(ctx context.Context, w waiting) error {
	for _, delay := range delays() {
		err := s.attempt(ctx, w)
		var later *laterError
		if !errors.As(err, &later) {
			return err
		}
		if err := s.pause(ctx, max(delay, min(later.after, longest))); err != nil {
			return err
		}
	}
	return s.attempt(ctx, w)
}

// attempt reads the Secret each time: a person may have corrected it meanwhile.
func (s *Sender) attempt(ctx context.Context, w waiting) error {
	reading, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	with, err := open(reading, s.Secrets, s.Grants, w.notice.NodeSync, w.to.SecretRef.Name)
	if err != nil {
		return err
	}
	hidden := redact.Credentials(with.secrets()...)
	err = post(ctx, adapters()[w.to.Type], w.notice, with)
	var later *laterError
	if errors.As(err, &later) {
		return &laterError{after: later.after, err: hidden.Error(later.err)}
	}
	return hidden.Error(err)
}

func (s *Sender) pause(ctx context.Context, d time.Duration) error {
	if s.Pause != nil {
		return s.Pause(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// fail notes what was not sent, for the next pass to report.
func (s *Sender) fail(at receiver, n Notice, err error) {
	if s.failed == nil {
		s.failed = map[types.NamespacedName][]string{}
	}
	if len(s.failed[at.sync]) < maxFailures {
		words := fmt.Sprintf("receiver %s was not notified of %s: %v", at.name, n.Reason, err)
		s.failed[at.sync] = append(s.failed[at.sync], finding.Bounded(words, maxFailure))
	}
}

// Failed is what was not sent since it was asked last.
func (s *Sender) Failed(sync types.NamespacedName) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := s.failed[sync]
	delete(s.failed, sync)
	return failed
}
