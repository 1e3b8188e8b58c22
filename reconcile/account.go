package reconcile

import (
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/install"
)

// verifyCloud finds out whether EC2 can be asked, and is the account that this cluster's
// nodes are in. What is not verified blocks removals, and the charts as install.Barrier
// says. It stops a pass only where the commit renames the cluster.
func (p *pass) verifyCloud(ctx context.Context) error {
	step := p.accountStep()
	verdict := step.Verify(ctx)
	p.Join(step.Findings)
	p.account = &verdict
	return p.checkRename()
}

// mayChangeCharts is asked before each change of the charts, and whether one is
// needed.
func (p *pass) mayChangeCharts(ctx context.Context) error {
	step := p.accountStep()
	verdict := step.Confirm(ctx)
	p.Join(step.Findings)
	p.account = &verdict
	if barrier := install.Barrier(*p.sync.Status.Karpenter, verdict, p.sync.Spec.Guard.AllowUnverifiedAccount); barrier != nil {
		return barrier
	}
	return nil
}

// seeCollision looks for a controller that runs here under another cluster's name.
func (p *pass) seeCollision(ctx context.Context) (err error) {
	p.SawAccount = true
	if p.account == nil {
		return nil
	}
	p.Collision, err = p.accountStep().Collides(ctx, *p.account)
	return err
}

// noteCluster records which EKS cluster was verified to be this one.
func (p *pass) noteCluster() {
	k := p.sync.Status.Karpenter
	if arn := p.memory.account.ARN(k.Cluster, k.Region); p.verified() && arn != "" {
		k.ClusterARN = arn
	}
}

// verified says whether EC2 was asked, and is the account of this cluster.
func (p *pass) verified() bool { return p.account != nil && p.account.OK }

func (p *pass) accountStep() *account.Step {
	name, region := p.clusterName()
	step := &account.Step{
		Cloud: p.dial, CertificateAuthority: p.Settings.CertificateAuthority, View: p.view, Memory: &p.memory.account,
		Name: name, Region: region, Generation: p.sync.Generation,
		Claims: p.live.NodeClaims, Removals: p.sync.Status.Removals,
		Now: p.now, Interval: p.Settings.CloudInterval, Retry: p.retryInterval(), Patience: account.Patience(p.timeout()),
	}
	if fixed := p.sync.Status.Karpenter; fixed != nil {
		step.ClusterARN = fixed.ClusterARN
	}
	return step
}

// dial returns the client of a region, whose answers about instances are not waited for
// long.
func (p *pass) dial(ctx context.Context, region string) (account.Cloud, error) {
	client, err := p.clouds.In(ctx, region, p.DialCloud)
	if err != nil {
		return nil, err
	}
	return account.Within(client, account.Patience(p.timeout())), nil
}

// clusterName is the cluster as Git names it, or as the first install fixed it
// where there is no Git to read.
func (p *pass) clusterName() (name, region string) {
	if p.want.Karpenter != nil {
		return p.want.Karpenter.Cluster.Name, p.want.Karpenter.Cluster.Region
	}
	if fixed := p.sync.Status.Karpenter; fixed != nil {
		return fixed.Cluster, fixed.Region
	}
	return "", ""
}
