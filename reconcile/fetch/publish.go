package fetch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

const (
	// maxPushRetry limits the time until a failed push is retried, which doubles with each failure.
	maxPushRetry = 10 * time.Minute
	// maxPushFailure limits the message of a failed push, in bytes.
	maxPushFailure = 512
)

// Publisher keeps the record of one cluster, and pushes it in the background. Git has the record between two processes.
// The zero value is ready to use.
type Publisher struct {
	mu     sync.Mutex
	record promotion.Record
	// begun reports whether the record of Git was read, or there is none.
	begun bool
	// changed reports whether the record has a verdict that was not pushed. pushing is true during a push.
	changed, pushing bool
	// last is when the last push began, and due the earliest time of the next one after failures.
	last, due time.Time
	failures  int
	ref       string
	failure   string
}

// Published is the state of the record.
type Published struct {
	// Ref is the reference that it was last pushed to, and Failure why the last push failed; both may be empty.
	Ref, Failure string
}

// Begin continues the record that Git has. own is nil if it has none; read is false if that is unknown: then nothing is
// pushed yet, which would replace a record with verdicts that this process does not know.
func (p *Publisher) Begin(m promotion.Member, own *promotion.Record, read bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun && p.record.Member() == m || !read {
		return
	}
	p.record = promotion.Record{Cluster: m.Cluster, NodeSync: m.NodeSync}
	if own != nil {
		p.record, p.last = *own, own.At
	}
	p.begun, p.changed = true, own == nil
}

// Record returns the newest record of this cluster; nil if it is unknown.
func (p *Publisher) Record() *promotion.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun || len(p.record.Verdicts) == 0 {
		return nil
	}
	r := p.record // verdicts are replaced, not changed
	return &r
}

// Note records what became of a commit.
func (p *Publisher) Note(o promotion.Observed, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		return
	}
	if next, changed := p.record.Observe(o, now); changed {
		p.record, p.changed = next, true
	}
}

// State returns the state of the record.
func (p *Publisher) State() Published {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Published{Ref: p.ref, Failure: p.failure}
}

// Push is what a push needs.
type Push struct {
	// Sign returns the function that signs, and Send pushes a commit to the first of some references that the host takes.
	Sign func(ctx context.Context) (func(payload []byte) (string, error), error)
	Send func(ctx context.Context, refs []string, data []byte) (ref string, err error)
	// StillLeader returns an error if the lease is no longer ours.
	StillLeader func(context.Context) error
	// Known is the reference that the last process has pushed to; empty if unknown.
	Known string
	// SilentAfter is the time after which the cluster counts as silent.
	SilentAfter time.Duration
	// Hide removes the values of Secrets from a message, and Done is called when the state has changed.
	Hide func(string) string
	Done func()
	Now  time.Time
}

// Push pushes the record in a goroutine, if it is due; no reconcile waits for it. It reports in found when the next push
// is due.
func (p *Publisher) Push(ctx context.Context, push Push, found *finding.Findings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun || len(p.record.Verdicts) == 0 || p.pushing {
		return
	}
	due := promotion.PushDue(p.last, p.changed, push.SilentAfter)
	if p.due.After(due) {
		due = p.due
	}
	if push.Now.Before(due) && !p.last.After(push.Now.Add(promotion.MaxSkew)) { // otherwise the clock was set back
		found.WakeBy(due)
		return
	}
	if p.ref == "" {
		p.ref = push.Known
	}
	refs := p.record.Member().References()
	if p.ref == refs[1] {
		refs[0], refs[1] = refs[1], refs[0]
	}
	p.record = p.record.Again(push.Now)
	p.pushing, p.changed, p.last = true, false, push.Now
	go p.push(context.WithoutCancel(ctx), push, p.record, refs)
}

func (p *Publisher) push(ctx context.Context, push Push, record promotion.Record, refs []string) {
	ref, err := send(ctx, push, record, refs)
	p.mu.Lock()
	before := Published{p.ref, p.failure}
	p.pushing = false
	if err == nil {
		p.ref, p.failure, p.failures, p.due = ref, "", 0, time.Time{}
	} else {
		p.failure = finding.Bounded(push.Hide(err.Error()), maxPushFailure)
		p.changed = true
		p.due = push.Now.Add(min(promotion.MinPushInterval<<min(p.failures, 6), maxPushRetry))
		p.failures++
	}
	news := before != Published{p.ref, p.failure}
	p.mu.Unlock()
	if news {
		push.Done()
	}
}

func send(ctx context.Context, push Push, record promotion.Record, refs []string) (string, error) {
	if err := push.StillLeader(ctx); err != nil {
		return "", err
	}
	sign, err := push.Sign(ctx)
	if err != nil {
		return "", err
	}
	data, err := record.Commit(sign)
	if err != nil {
		return "", err
	}
	return push.Send(ctx, refs, data)
}

// SendRecord returns a function that pushes the record of this cluster, outside of reconciles.
func (s *Step) SendRecord() func(ctx context.Context, refs []string, data []byte) (string, error) {
	apart := s.apart()
	return func(ctx context.Context, refs []string, data []byte) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, apart.Sync.GetTimeout())
		defer cancel()
		request, err := apart.request(ctx)
		if err != nil {
			return "", err
		}
		return apart.Source.PushRecord(ctx, request, refs, data)
	}
}

// SignRecord returns a function that reads the key of this cluster, outside of reconciles.
func (s *Step) SignRecord() func(ctx context.Context) (func(payload []byte) (string, error), error) {
	apart := s.apart()
	return func(ctx context.Context) (func(payload []byte) (string, error), error) {
		ctx, cancel := context.WithTimeout(ctx, apart.Sync.GetTimeout())
		defer cancel()
		name := apart.Sync.Spec.Promotion.SigningKey.Name
		secret, err := apart.Secret(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("read secret %s, which spec.promotion.signingKey names: %w", name, err)
		}
		if err := grant.CheckNodeSync(secret, apart.Sync.Name); err != nil {
			return nil, err
		}
		signer, err := signature.NewSigner(secret.Data["identity"], secret.Data["password"])
		if err != nil {
			return nil, fmt.Errorf("secret %s, which spec.promotion.signingKey names: %w", name, err)
		}
		if err := ownKey(apart, signer); err != nil {
			return nil, err
		}
		return signer.Sign, nil
	}
}

// ownKey returns an error if the signing key is not one of the cluster's own: the others would reject the record.
func ownKey(s *Step, signer signature.Signer) error {
	keys, err := ClusterKeys(s.Sync.Spec.Promotion)
	if err != nil {
		return err
	}
	me := MemberOf(s.Sync)
	own, listed := keys[me]
	if !listed {
		return fmt.Errorf("spec.promotion.clusters does not list this cluster, %s: add it with the public key %s", me, signer.Public())
	}
	data, err := promotion.Record{Cluster: me.Cluster, NodeSync: me.NodeSync, At: s.Now}.Commit(signer.Sign)
	if err != nil {
		return err
	}
	if _, err := (promotion.Envelope{Data: data}).Open(me, own, s.Now); err != nil {
		return errors.New("the key of spec.promotion.signingKey is not one of spec.promotion.clusters[].keys of this cluster: add " + signer.Public())
	}
	return nil
}
