package account

import (
	"context"
	"sync"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/preflight"
)

// PreflightEvery is the minimum time between two lookups of the role: one takes about ten requests.
const PreflightEvery = time.Hour

// PreflightLook is the input of PreflightChecker.See in one reconcile.
type PreflightLook struct {
	// Grant reads the role of Karpenter's controller in AWS, and Account finds its ServiceAccount.
	Grant   func(ctx context.Context, cluster string, account cloud.ServiceAccount) (cloud.Grant, error)
	Account func(ctx context.Context) cloud.ServiceAccount
	// Observed has the cluster, its region, the version of Karpenter, its settings and the EC2NodeClasses.
	Observed preflight.Observed
	Now      time.Time
}

// PreflightChecker finds out, in the background of one NodeSync's reconciles, whether the role of Karpenter's controller
// allows what its version needs. It reads the role at most once an hour, and compares it with the version in each
// reconcile. The zero value is ready to use.
type PreflightChecker struct {
	mu     sync.Mutex
	asking bool
	due    time.Time
	// of is the cluster and its region, and grant the last answer about it; nil if there is none, or the role was not read.
	of    [2]string
	grant *cloud.Grant
}

// See returns what the role does not allow; known is false if that is unknown. No reconcile waits for AWS: a later one gets
// the result.
func (p *PreflightChecker) See(ctx context.Context, l PreflightLook) (found []preflight.Finding, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of := [2]string{l.Observed.Cluster, l.Observed.Region}; p.of != of && !p.asking {
		p.of, p.grant, p.due = of, nil, time.Time{}
	}
	if !p.asking && !l.Now.Before(p.due) {
		p.asking, p.due = true, l.Now.Add(PreflightEvery)
		go p.query(context.WithoutCancel(ctx), l, l.Account(ctx))
	}
	if p.grant == nil {
		return nil, false
	}
	return preflight.Permissions(l.Observed, *p.grant), true
}

// query reads the role. An answer that is incomplete proves nothing, and replaces an earlier one: that may be outdated.
func (p *PreflightChecker) query(ctx context.Context, l PreflightLook, of cloud.ServiceAccount) {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	grant, err := l.Grant(ctx, l.Observed.Cluster, of)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking = false
	if p.grant = &grant; err != nil || grant.RoleARN == "" {
		p.grant = nil
	}
}
