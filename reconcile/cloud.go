package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// Cloud is what is asked of AWS.
type Cloud interface {
	Cluster(ctx context.Context, name string) (cloud.Cluster, error)
	Instances(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)
}

// clouds are the clients in use, by region.
type clouds struct {
	mu sync.Mutex
	of map[string]Cloud
}

// in returns the client of a region, made the first time.
func (c *clouds) in(ctx context.Context, region string, dial func(context.Context, string) (Cloud, error)) (Cloud, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.of[region]; ok {
		return known, nil
	}
	client, err := dial(ctx, region)
	if err != nil {
		return nil, err
	}
	if c.of == nil {
		c.of = map[string]Cloud{}
	}
	c.of[region] = client
	return client, nil
}

// cloudCheckInterval is how long a good answer about the account holds.
const cloudCheckInterval = 10 * time.Minute

// aboutToEnd says whether a removal may delete its NodeClaims in this pass, or
// count its instances as ended: neither can be taken back, so it is not done on
// an old answer. An account that has become another one shows no instance.
func (p *pass) aboutToEnd() bool {
	phases := []v1alpha1.RemovalPhase{v1alpha1.RemovalPacing, v1alpha1.RemovalDraining, v1alpha1.RemovalVerifyingCloud}
	return slices.ContainsFunc(p.sync.Status.Removals, func(r v1alpha1.Removal) bool { return slices.Contains(phases, r.Phase) })
}

// account is what AWS said last about the cluster that plumbline.yaml names. Its
// verdict is the condition CloudVerified.
type account struct {
	at           time.Time
	name, region string
	// arn of the EKS cluster of that name; empty where AWS did not say.
	arn string
}

// verifyCloud sets CloudVerified: whether EC2 can be asked, and is the account
// that this cluster's nodes are in. False blocks removals, and the charts as
// chartsBarrier says. It stops a pass only where the commit renames the cluster.
func (p *pass) verifyCloud(ctx context.Context) error {
	known := conditions.Get(p.sync, v1alpha1.CloudVerifiedCondition)
	interval := p.retryInterval()
	if known != nil && known.Status == "True" {
		interval = cloudCheckInterval
		if p.aboutToEnd() {
			interval = p.Settings.CloudInterval
		}
	}
	switch {
	case known == nil || !p.accountKnown(interval):
		p.askAboutAccount(ctx)
	case known.Status != "True":
		p.WakeBy(p.memory.account.at.Add(interval))
	}
	return p.checkRename()
}

// accountKnown says whether CloudVerified is an answer about this cluster that is
// not older than an interval. An answer about another name says nothing.
func (p *pass) accountKnown(interval time.Duration) bool {
	known, last := conditions.Get(p.sync, v1alpha1.CloudVerifiedCondition), p.memory.account
	name, region := p.clusterName()
	return known != nil && known.ObservedGeneration == p.sync.Generation &&
		last.name == name && last.region == region && !finding.Due(p.now, last.at, interval)
}

// askAboutAccount asks AWS and sets CloudVerified.
func (p *pass) askAboutAccount(ctx context.Context) {
	p.tellForeign()
	name, region := p.clusterName()
	p.memory.account = account{at: p.now, name: name, region: region}
	verdict, err := p.askAccount(ctx)
	switch {
	case err != nil:
		p.WakeBy(p.now.Add(p.retryInterval()))
		conditions.MarkFalse(p.sync, v1alpha1.CloudVerifiedCondition, fault.Classify(err).Reason, "%s", finding.Bounded(err.Error(), conclude.MaxMessage))
	case !verdict.OK:
		p.WakeBy(p.now.Add(p.retryInterval()))
		conditions.MarkFalse(p.sync, v1alpha1.CloudVerifiedCondition, verdict.Reason, "%s", verdict.Message)
	default:
		conditions.MarkTrue(p.sync, v1alpha1.CloudVerifiedCondition, verdict.Reason, "%s", verdict.Message)
	}
}

func (p *pass) askAccount(ctx context.Context) (cloud.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cloudPatience())
	defer cancel()
	name, region := p.clusterName()
	aws, err := p.clouds.in(ctx, region, p.DialCloud)
	if err != nil {
		return cloud.Verdict{}, err
	}
	cluster, err := aws.Cluster(ctx, name)
	if err != nil {
		return cloud.Verdict{}, err
	}
	p.memory.account.arn = cluster.ARN
	// Another cluster is one whether EC2 answers or not.
	if verdict := cloud.Verify(cluster, p.Settings.CertificateAuthority, nil, nil); !verdict.OK {
		return verdict, nil
	}
	ids := p.providerIDs()
	visible, err := aws.Instances(ctx, cloud.Query{Cluster: name, ProviderIDs: ids})
	if err != nil && len(visible) == 0 {
		return cloud.Verdict{}, err
	}
	return cloud.Verify(cluster, p.Settings.CertificateAuthority, ids, visible), nil
}

// maxCloudPatience is the longest that AWS may hold up a pass: a push or a drift
// must not wait for a cloud that does not answer.
const maxCloudPatience = 15 * time.Second

// cloudPatience is how long one of a pass's two questions may take: that about
// the account, and that about removals.
func (p *pass) cloudPatience() time.Duration { return min(p.timeout(), maxCloudPatience) / 2 }

// impatient is a Cloud whose answers about instances are waited for no longer
// than patience.
type impatient struct {
	Cloud
	patience time.Duration
}

func (c impatient) Instances(ctx context.Context, query cloud.Query) ([]cloud.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	return c.Cloud.Instances(ctx, query)
}

// maxProviderIDs bounds the question whether live instances can be seen: a few
// tell an account as well as all.
const maxProviderIDs = 50

// providerIDs are some of those that live. A cache lists in no order; the same
// world makes the same question, and the same words about its answer.
func (p *pass) providerIDs() []string {
	var ids []string
	for _, claim := range p.live.NodeClaims {
		if _, _, err := cloud.ParseProviderID(claim.ProviderID); err == nil && !claim.Deleting {
			ids = append(ids, claim.ProviderID)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), maxProviderIDs)]
}

// tellForeign says, once, which NodeClaims EC2 cannot be asked about.
func (p *pass) tellForeign() {
	var fresh []string
	foreign := map[string]bool{}
	for _, claim := range p.live.NodeClaims {
		if _, _, err := cloud.ParseProviderID(claim.ProviderID); err == nil || claim.ProviderID == "" {
			continue
		}
		foreign[claim.Name] = true
		if !p.memory.foreign[claim.Name] {
			fresh = append(fresh, fmt.Sprintf("NodeClaim/%s of NodePool/%s (%s)", claim.Name, claim.Pool, claim.ProviderID))
		}
	}
	p.memory.foreign = foreign
	if len(fresh) == 0 {
		return
	}
	slices.Sort(fresh)
	p.Warn("ProviderIDForeign", finding.Some(fresh)+": not an instance of EC2, which cannot say whether it has ended: a removal of its pool is not verified by itself")
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
