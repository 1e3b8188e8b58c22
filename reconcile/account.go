package reconcile

import (
	"context"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/resolve"
)

// verifyCloud finds out whether EC2 can be asked, and is the account that this cluster's
// nodes are in. What is not verified blocks removals, and the charts as install.Barrier
// says. It stops a pass only where the commit renames the cluster.
func (p *pass) verifyCloud(ctx context.Context) error {
	p.asks(ctx, (*account.Step).Verify)
	return p.want.CheckRename(p.account.OK)
}

// mayChangeCharts is asked before each change of the charts, and whether one is
// needed.
func (p *pass) mayChangeCharts(ctx context.Context) error {
	p.asks(ctx, (*account.Step).Confirm)
	return install.Barrier(*p.sync.Status.Karpenter, *p.account, p.sync.Spec.Guard.AllowUnverifiedAccount)
}

// asks takes what AWS says of the account.
func (p *pass) asks(ctx context.Context, ask func(*account.Step, context.Context) cloud.Verdict) {
	step := p.accountStep()
	verdict := ask(step, ctx)
	p.Join(step.Findings)
	told := conclude.CloudVerified(verdict)
	p.account, p.CloudVerified = &verdict, &told
}

// seeCollision looks for a controller that runs here under another cluster's name.
func (p *pass) seeCollision(ctx context.Context) (err error) {
	p.SawAccount = true
	p.Collision, err = p.accountStep().Collides(ctx, p.account)
	return err
}

func (p *pass) accountStep() *account.Step {
	name, region := p.want.Cluster(p.sync.Status.Karpenter)
	return &account.Step{
		Cloud: p.cloud(), CertificateAuthority: p.Settings.CertificateAuthority, View: p.view, Memory: &p.memory.account,
		Name: name, Region: region, ClusterARN: p.sync.Status.Karpenter.GetClusterARN(), Generation: p.sync.Generation,
		Claims: p.live.NodeClaims, Removals: p.sync.Status.Removals,
		Now: p.now, Interval: p.Settings.CloudInterval, Retry: p.sync.GetRetryInterval(), Patience: account.Patience(p.sync.GetTimeout()),
	}
}

// resolveStep is the question what selectors come to. It is asked in the account that was verified.
func (p *pass) resolveStep() *resolve.Step {
	name, region := p.want.Cluster(p.sync.Status.Karpenter)
	return &resolve.Step{
		Cloud:   func(ctx context.Context) (resolve.Cloud, error) { return p.cloud()(ctx, region) },
		Cluster: name, Kubernetes: p.memory.account.Kubernetes(), Patience: account.Patience(p.sync.GetTimeout()),
		Unverified: resolve.Unverified(p.account),
	}
}

// cloud dials AWS, whose answers about instances are not waited for long.
func (p *pass) cloud() account.Dialer {
	return p.Clouds.Within(account.Patience(p.sync.GetTimeout()))
}
