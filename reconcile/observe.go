package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// observed is the state of the cluster, and AWS's answer about the account: the second phase's result.
type observed struct {
	finding.Findings
	// Live contains the definitions, the NodeClaims and related objects from the watch cache.
	Live plan.Live
	// Unserved is why one of Karpenter's kinds is not served, so that its objects are unknown; empty if all are.
	Unserved string
	// Account is AWS's answer about the account; nil if AWS was not queried.
	Account *cloud.Verdict
	// Collision describes a controller that runs under another cluster's name, and SawCollision reports that it was
	// looked for.
	Collision    string
	SawCollision bool
}

// observe reads the live objects, and whether EC2 can be queried and is the account of this cluster's nodes. An account
// that is not verified blocks removals, and the charts as in upgrade.Barrier; it stops a reconcile only if the commit
// renames the cluster.
func (r *reconciliation) observe(ctx context.Context, rev revision) (observed, error) {
	of := func(do func(context.Context, revision, observed) (observed, error)) func(context.Context, observed) (observed, error) {
		return func(ctx context.Context, obs observed) (observed, error) { return do(ctx, rev, obs) }
	}
	return step.All(ctx, r.trace, observed{}, []step.Of[observed]{
		{Name: step.See, Do: func(ctx context.Context, _ observed) (observed, error) { return r.observeLive(ctx) }},
		{Name: step.VerifyCloud, Do: of(r.verifyCloud)},
		{Name: step.SeeCollision, Do: of(r.observeCollision)},
	})
}

// observeLive reads the live objects from the watch cache, with writes of the last reconcile that are missing in it.
func (r *reconciliation) observeLive(ctx context.Context) (observed, error) {
	live, err := r.view.Live(ctx)
	if err != nil {
		return observed{Live: live}, err
	}
	live = r.memory.changes.Newest(live, r.now)
	return r.observeKinds(ctx, observed{Live: live.With(&r.sync.Status)})
}

// observeKinds records why Karpenter's kinds are not served. If they were served when the NodeSync was Ready, that is
// reported first: the repair of the charts takes seconds, in which the commit would still be a success.
func (r *reconciliation) observeKinds(ctx context.Context, obs observed) (observed, error) {
	if obs.Live.Served {
		return obs, nil
	}
	established, err := r.view.Established(ctx)
	if err != nil {
		return obs, err
	}
	obs.Unserved = established.Message
	if obs.Unserved != "" && conditions.IsReady(r.before) {
		obs.WakeBy(r.now)
		return obs, fault.Waits(errors.New(obs.Unserved))
	}
	return obs, nil
}

// verifyCloud queries AWS about the account, and refuses a commit that renames the cluster unless AWS confirms the new
// name.
func (r *reconciliation) verifyCloud(ctx context.Context, rev revision, obs observed) (observed, error) {
	obs = r.verifyAccount(ctx, rev.Config, obs)
	return obs, rev.Config.CheckRename(obs.Account.OK)
}

// verifyAccount queries AWS about the account.
func (r *reconciliation) verifyAccount(ctx context.Context, config evaluate.Desired, obs observed) observed {
	ask := r.accountStep(config, obs.Live)
	verdict := ask.Verify(ctx)
	obs.Join(ask.Findings)
	obs.Account = &verdict
	return obs
}

// observeCollision looks for a controller that runs here under another cluster's name.
func (r *reconciliation) observeCollision(ctx context.Context, rev revision, obs observed) (observed, error) {
	var err error
	obs.SawCollision = true
	obs.Collision, err = r.accountStep(rev.Config, obs.Live).Collides(ctx, obs.Account)
	return obs, err
}

// accountStep returns the step that verifies the account of the cluster that plumbline.yaml names.
func (r *reconciliation) accountStep(config evaluate.Desired, live plan.Live) *account.Step {
	name, region := config.Cluster(r.sync.Status.Karpenter)
	return &account.Step{
		Cloud: r.cloud(), CertificateAuthority: r.Cluster.CertificateAuthority, View: r.view, Memory: &r.memory.account,
		Name: name, Region: region, ClusterARN: r.sync.Status.Karpenter.GetClusterARN(), Generation: r.sync.Generation,
		Claims: live.NodeClaims, Removals: r.sync.Status.Removals,
		Now: r.now, Interval: r.Settings.CloudInterval, Retry: r.sync.GetRetryInterval(), QueryTimeout: account.QueryTimeout(r.sync.GetTimeout()),
	}
}

// resolves returns a function that queries AWS for what selectors resolve to, in the account that was verified.
func (r *reconciliation) resolves(verdict *cloud.Verdict) func(cluster, region string) plan.Ask {
	return func(name, region string) plan.Ask {
		return (&account.Resolution{
			Cloud:   func(ctx context.Context) (account.ResolutionCloud, error) { return r.cloud()(ctx, region) },
			Cluster: name, Kubernetes: r.memory.account.Kubernetes(), Timeout: account.QueryTimeout(r.sync.GetTimeout()),
			Unverified: account.Unverified(verdict),
		}).Answers
	}
}

// daemonSets returns those that nodes need until their last pod has stopped, and when to query again.
func (r *reconciliation) daemonSets(ctx context.Context, claims []plan.NodeClaim) (plan.DaemonSets, time.Time) {
	return r.view.DaemonSets(ctx, claims, r.now, r.sync.GetRetryInterval())
}

// cloud returns a client of AWS with a short timeout for queries about instances.
func (r *reconciliation) cloud() account.Dialer {
	return r.Cluster.Clouds.Within(account.QueryTimeout(r.sync.GetTimeout()))
}

// GrantOf returns a function that reads the role of a ServiceAccount with the client of a region.
func GrantOf(dial account.Dialer) upgrade.ReadGrant {
	return func(ctx context.Context, cluster, region string, of cloud.ServiceAccount) (cloud.Grant, error) {
		aws, err := dial(ctx, region)
		if err != nil {
			return cloud.Grant{}, err
		}
		return aws.Grant(ctx, cluster, of)
	}
}
