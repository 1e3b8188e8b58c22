package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/internal/trust"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/redact"
)

const (
	// maxWaiting limits the Notices in the queue of one receiver; then the oldest one that is not being sent is dropped.
	maxWaiting = 32
	// maxFailures limits the failures of one NodeSync that wait to be reported.
	maxFailures = 8
	// maxRequestedWait limits the wait that a receiver may request.
	maxRequestedWait = 10 * time.Minute
	// maxFailure limits the message of a failure, in bytes.
	maxFailure = 256
)

// delays returns the delays before retries: six attempts in total, within ten minutes.
func delays() []time.Duration {
	return []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute}
}

// Sender posts Notices concurrently with the reconciles. It is safe for concurrent use.
type Sender struct {
	// Secrets reads without a cache.
	Secrets client.Reader
	// Grants defines to which hosts a Secret may be sent.
	Grants grant.Policy
	// Pause waits; an error stops the attempts. If nil, a timer is used.
	Pause func(context.Context, time.Duration) error

	mu     sync.Mutex
	lanes  map[receiver][]waiting
	failed map[types.NamespacedName][]string
}

// receiver identifies a receiver of a NodeSync.
type receiver struct {
	sync types.NamespacedName
	name string
}

// waiting is a Notice in a queue.
type waiting struct {
	to     v1alpha1.Notify
	notice Notice
}

// Send queues the Notices for those receivers of a NodeSync that want them. It does not block.
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

// deliver retries until an attempt succeeds or another one is pointless.
func (s *Sender) deliver(ctx context.Context, w waiting) error {
	for _, delay := range delays() {
		err := s.attempt(ctx, w)
		var later *laterError
		if !errors.As(err, &later) {
			return err
		}
		if err := s.pause(ctx, max(delay, min(later.after, maxRequestedWait))); err != nil {
			return err
		}
	}
	return s.attempt(ctx, w)
}

// attempt reads the Secret each time, because a user may have corrected it in the meantime.
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
	return pause.For(ctx, d)
}

// fail records what was not sent, for the next reconcile to report.
func (s *Sender) fail(at receiver, n Notice, err error) {
	if s.failed == nil {
		s.failed = map[types.NamespacedName][]string{}
	}
	if len(s.failed[at.sync]) < maxFailures {
		words := fmt.Sprintf("receiver %s was not notified of %s: %v", at.name, n.Reason, err)
		s.failed[at.sync] = append(s.failed[at.sync], finding.Bounded(words, maxFailure))
	}
}

// Failed returns what was not sent since the last call.
func (s *Sender) Failed(sync types.NamespacedName) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := s.failed[sync]
	delete(s.failed, sync)
	return failed
}

// timeout limits one attempt, and maxAnswer what is read of a response.
const (
	timeout   = 10 * time.Second
	maxAnswer = 4 << 10
)

// laterError is a failure that may be temporary. after is how long the receiver wants no requests; 0 if it did not say.
type laterError struct {
	after time.Duration
	err   error
}

func (e *laterError) Error() string { return e.err.Error() }

func (e *laterError) Unwrap() error { return e.err }

// post makes one attempt. A *laterError is worth a retry.
func post(ctx context.Context, kind adapter, n Notice, with credentials) error {
	data, err := json.Marshal(kind.body(n))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	transport, trusted := trust.Transport(with.CA)
	if !trusted {
		return errors.New("ca.crt of its Secret has no certificate in PEM")
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, with.Address, bytes.NewReader(data))
	if err != nil {
		return errors.New("the address in its Secret is no URL")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "plumbline")
	if name, value := kind.sign(with, data); name != "" {
		request.Header.Set(name, value)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := (&http.Client{Transport: transport, CheckRedirect: stay}).Do(request)
	if err != nil {
		var at *url.Error // it repeats the address
		if errors.As(err, &at) {
			err = at.Err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", timeout)
		}
		return &laterError{err: err}
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // a part says enough
	return responseError(response, said)
}

// responseError converts a response into an error, or nil.
func responseError(response *http.Response, said []byte) error {
	code := response.StatusCode
	err := fmt.Errorf("it answers %s", response.Status)
	if text := bytes.TrimSpace(said); len(text) > 0 {
		err = fmt.Errorf("%w: %s", err, text)
	}
	switch {
	case code >= http.StatusOK && code < http.StatusMultipleChoices:
		return nil
	case code == http.StatusTooManyRequests:
		return &laterError{after: report.RetryAfter(response.Header), err: err}
	case code >= http.StatusInternalServerError, code == http.StatusRequestTimeout:
		return &laterError{after: report.RetryAfter(response.Header), err: err}
	case code >= http.StatusMultipleChoices && code < http.StatusBadRequest:
		return errors.New("it redirects to another address, which is not followed: put that address into its Secret")
	}
	return err
}

// credentials are the address of a receiver and its authentication.
type credentials struct {
	Address, Token, Username, Password string
	// CA contains certificate authorities of the host, in PEM, in addition to the system's.
	CA []byte
}

// secrets returns the values that no message may repeat. They include the whole address, because that of Slack and
// Teams is all that is needed to post there.
func (c credentials) secrets() []string {
	all := []string{c.Address, c.Token, c.Password}
	if at, err := url.Parse(c.Address); err == nil {
		all = append(all, strings.Trim(at.Path, "/"), at.RawQuery)
	}
	return all
}

// open reads a Secret in the NodeSync's namespace, if it may be sent to the host in it.
func open(ctx context.Context, reader client.Reader, grants grant.Policy, sync types.NamespacedName, name string) (credentials, error) {
	secret := &corev1.Secret{}
	if err := reader.Get(ctx, types.NamespacedName{Namespace: sync.Namespace, Name: name}, secret); err != nil {
		return credentials{}, fmt.Errorf("read secret %s: %w", name, err)
	}
	value := func(key string) string { return strings.TrimSpace(string(secret.Data[key])) }
	c := credentials{
		Address: value("address"), Token: value("token"), Username: value("username"), Password: value("password"), CA: secret.Data["ca.crt"],
	}
	at, err := url.Parse(c.Address)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
		return credentials{}, fmt.Errorf("the key address of secret %s is no URL of http or https", name)
	}
	return c, grants.Check(secret, grant.Use{NodeSync: sync.Name, Address: c.Address})
}
