package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// Hosts makes the client of a Git host.
type Hosts interface {
	Host(to v1alpha1.Report, repository string, secret map[string][]byte) (report.Poster, error)
}

// report posts the verdict as a commit status on HEAD as fetched, to each host
// that has not got it yet. A host that fails never fails the pass: it is tried
// again, and an event says why.
func (p *pass) report(ctx context.Context) {
	if p.snapshot == nil || p.snapshot.Commit == "" || p.suspended || p.elsewhere || p.superseded() {
		return
	}
	if f := fault.Classify(p.unfetched); f != nil && f.Class == fault.Transient {
		// A host that cannot be reached says nothing about the commit.
		return
	}
	v := p.verdict()
	for _, to := range p.sync.Spec.Report {
		p.reportTo(ctx, to, v)
	}
}

func (p *pass) reportTo(ctx context.Context, to v1alpha1.Report, v verdict) {
	status := report.Status{
		Commit:      p.snapshot.Commit,
		Context:     p.statusContext(),
		State:       v.commitState(),
		Description: report.Truncate(v.commitText()),
	}
	key := to.Provider + " " + to.URL
	as := reportedAs(to, status)
	if p.isReported(key, as) {
		p.noteReported(as)
		return
	}
	after := p.memory.reportAfter[key]
	if last := p.memory.reported[key]; pending(last) && status.State == report.Pending && last.Commit == status.Commit {
		after = later(after, p.memory.reportedAt[key].Add(pendingEvery))
	}
	if p.now.Before(after) {
		p.wakeAt(after)
		return
	}
	if err := p.post(ctx, to, status); err != nil {
		after := p.now.Add(retryAfter(err, p.retryInterval()))
		p.memory.reportAfter[key] = after
		p.wakeAt(after)
		p.warn("ReportFailed", fmt.Sprintf("commit status on %s: %v", to.Provider, err))
		return
	}
	delete(p.memory.reportAfter, key)
	p.memory.reported[key], p.memory.reportedAt[key] = as, p.now
	p.noteReported(as)
}

// isReported says whether a commit status is the one that was posted last. What
// this process has posted itself counts before a status that may be stale.
func (p *pass) isReported(key string, as v1alpha1.Reported) bool {
	if last, known := p.memory.reported[key]; known {
		return last == as
	}
	return slices.Contains(p.sync.Status.Reported, as)
}

// pendingEvery is the least time between two statuses on one commit that both
// say pending: hosts limit how many they take.
const pendingEvery = 5 * time.Second

func pending(r v1alpha1.Reported) bool { return r.State == string(report.Pending) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// statusContext is plumbline/<cluster>/<name>, so that clusters on one
// repository never overwrite each other.
func (p *pass) statusContext() string {
	cluster := ""
	switch {
	case p.karpenter != nil:
		cluster = p.karpenter.Cluster.Name
	case p.sync.Status.Karpenter != nil:
		cluster = p.sync.Status.Karpenter.Cluster
	default:
		cluster = p.sync.Namespace
	}
	return "plumbline/" + cluster + "/" + p.sync.Name
}

func (p *pass) post(ctx context.Context, to v1alpha1.Report, status report.Status) error {
	ctx, cancel := context.WithTimeout(ctx, min(p.timeout(), 15*time.Second))
	defer cancel()
	secret, err := p.secret(ctx, to.SecretRef.Name)
	if err != nil {
		return err
	}
	repository := to.URL
	if repository == "" {
		repository = p.sync.Spec.Source.Git.URL
	}
	host, err := p.Hosts.Host(to, repository, secret.Data)
	if err != nil {
		return err
	}
	return host.Post(ctx, status)
}

// noteReported writes down what was posted last, so that a restart does not post
// it again.
func (p *pass) noteReported(as v1alpha1.Reported) {
	for i, r := range p.sync.Status.Reported {
		if r.Provider == as.Provider && r.URL == as.URL && r.Context == as.Context {
			p.sync.Status.Reported[i] = as
			return
		}
	}
	p.sync.Status.Reported = append(p.sync.Status.Reported, as)
}

func reportedAs(to v1alpha1.Report, status report.Status) v1alpha1.Reported {
	return v1alpha1.Reported{
		Provider: to.Provider, URL: to.URL, Context: status.Context, Commit: status.Commit,
		State: string(status.State), Description: status.Description,
	}
}

func retryAfter(err error, otherwise time.Duration) time.Duration {
	var limited *report.RateLimitedError
	if errors.As(err, &limited) && limited.RetryAfter > 0 {
		return limited.RetryAfter
	}
	return otherwise
}

// commitState is the verdict as a commit status.
func (v verdict) commitState() report.State {
	switch v.class {
	case done:
		return report.Success
	case working:
		return report.Pending
	case retrying, stuck:
	}
	return report.Failure
}

// commitText is the verdict for a commit status, the most important first.
func (v verdict) commitText() string {
	if v.class == done {
		return "applied, Ready, no removal open; node rollouts are not tracked yet"
	}
	return v.message
}
