package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// evaluation is the plan, with what it was made from: the third phase's result.
type evaluation struct {
	evaluate.Evaluation
	revision revision
	observed observed
}

// evaluate finds out what Git wants and plans it against the live objects. It writes nothing.
func (r *reconciliation) evaluate(ctx context.Context, rev revision, obs observed) (evaluation, error) {
	return r.continueEvaluation(ctx, unevaluated(rev, obs), evaluate.Evaluate)
}

// unevaluated returns what is known before anything is evaluated.
func unevaluated(rev revision, obs observed) evaluation {
	return evaluation{revision: rev, observed: obs, Evaluation: evaluate.Evaluation{Desired: rev.Config, Live: obs.Live}}
}

// evaluateInForce evaluates again, under the release that is installed, because the charts that Git wants are refused
// or held.
func (r *reconciliation) evaluateInForce(ctx context.Context, ev evaluation, why error) (evaluation, error) {
	return r.continueEvaluation(ctx, ev, func(ctx context.Context, in evaluate.Inputs, found evaluate.Evaluation) (evaluate.Evaluation, error) {
		return evaluate.InForce(ctx, in, found, why)
	})
}

// continueEvaluation continues an evaluation.
func (r *reconciliation) continueEvaluation(
	ctx context.Context, ev evaluation, do func(context.Context, evaluate.Inputs, evaluate.Evaluation) (evaluate.Evaluation, error),
) (_ evaluation, err error) {
	ev.Evaluation, err = do(ctx, r.inputs(ev), ev.Evaluation)
	return ev, err
}

// inputs returns the inputs of this reconcile's evaluation.
func (r *reconciliation) inputs(ev evaluation) evaluate.Inputs {
	return evaluate.Inputs{
		Wanted: r.wanted(ev.revision), Planning: r.planning(ev.revision, ev.observed), Charts: r.charts(ev.revision),
		Record: appliedRecord{r}, Trace: r.trace,
	}
}

// wanted returns the step for what Git wants.
func (r *reconciliation) wanted(rev revision) evaluate.DesiredStep {
	return evaluate.DesiredStep{
		DesiredTools: evaluate.DesiredTools{
			Cached: r.Client, Uncached: r.Uncached, Store: r.Charts, Releases: r.Cluster.Helm, Schemas: &r.schemas,
			Confine: r.Confine, Grants: r.Settings.Grants, CABundle: r.Cluster.CABundle(),
			KarpenterNamespaces: r.Cluster.KarpenterNamespaces,
		},
		Snapshot: rev.Snapshot, Sync: r.sync, Observed: r.before.Status.ObservedGeneration, View: r.view, Memory: &r.memory.desired,
		Now: r.now, Timeout: r.sync.GetTimeout(), Retry: r.sync.GetRetryInterval(), Attempt: fmt.Sprint(r.memory.fetch.Attempt()),
		Secret: r.readSecret, KMS: account.DecryptWith(r.cloud()),
		Labelled: func(ctx context.Context) (client.Reader, func() time.Duration, error) {
			return r.watches.Labelled(ctx, r.Labelled, r.Uncached)
		},
		HideValues: r.memory.conclude.HideValues, HideCredential: r.memory.conclude.HideCredential,
	}
}

// planning returns the step for the plan.
func (r *reconciliation) planning(rev revision, obs observed) evaluate.PlanStep {
	last, _, _ := r.memory.fetch.Last()
	branch, retry := r.sourceStep(), r.sync.GetRetryInterval()
	return evaluate.PlanStep{
		PlanTools: evaluate.PlanTools{
			Cached: r.Client, Uncached: r.Uncached, Expire: r.Client, ServesApprovals: r.watches.ServesApprovals, Registry: &r.registry,
			Namespace: r.Settings.Namespace, Reconciles: r.Settings.Reconciles, Confine: r.Confine,
			CABundle: r.Cluster.CABundle(), Fetch: r.fetchFor, Enqueue: r.Enqueue,
		},
		Sync: r.sync, Before: r.before.Status, Snapshot: cmp.Or(rev.Snapshot, last), Applied: r.memory.changes.Forms(), Memory: &r.memory.policy,
		Now: r.now, Retry: retry,
		Hosts: func(ctx context.Context, claims []plan.NodeClaim) ([]plan.Host, error) {
			return r.view.PoolHosts(ctx, r.sync.Status.Karpenter, r.Settings.Own, claims)
		},
		Ask:        r.resolves(obs.Account),
		Loads:      cluster.Loads(r.view.Uncached, r.now),
		DaemonSets: r.daemonSets,
		Landing: r.memory.landing.For(r.Cluster.Landing, r.now, r.sync.GetAnnotations()[meta.ReconcileRequestAnnotation],
			func() { r.Enqueue(r.name()) }),
		Order: branch.Order, FindOrder: branch.FindOrder, Read: branch.Read,
	}
}

// charts returns the step for Karpenter's charts.
func (r *reconciliation) charts(rev revision) upgrade.Step {
	return upgrade.Step{
		Tools: upgrade.Tools{
			Client: r.Cluster.Client, Helm: r.Cluster.Helm, Logs: r.Cluster.Logs, Schemas: &r.schemas, StillLeader: r.Settings.StillLeader,
			Grant: GrantOf(r.cloud()),
		},
		Wanted: upgrade.Wanted{Revision: r.revisionOf(rev)},
		Sync:   r.sync, View: r.view, Memory: &r.memory.install,
		Now: r.now, Timeout: r.sync.GetTimeout(), Retry: r.sync.GetRetryInterval(), Requested: r.requestedByPerson(),
		Hide: r.memory.conclude.Hide,
	}
}

// chartStep returns the step for Karpenter's charts, with what was evaluated.
func (r *reconciliation) chartStep(ev evaluation) *upgrade.Step {
	return r.inputs(ev).ChartStep(ev.Evaluation)
}

// policyStep returns the step for the plan, with what was evaluated.
func (r *reconciliation) policyStep(ev evaluation) *evaluate.PlanStep {
	return r.inputs(ev).PlanStep(ev.Evaluation)
}

// appliedRecord is the record of what was applied, which removals keep.
type appliedRecord struct{ r *reconciliation }

// See finds the NodePools that were applied and that another client has deleted.
func (c appliedRecord) See(ctx context.Context, live plan.Live, set *render.Set) (plan.Live, finding.Findings, error) {
	r := c.r
	work := &removal.Step{
		Tools: removal.Tools{Client: r.Client, Uncached: r.Uncached, Nodes: r.Cluster.Clients},
		Sync:  r.sync, Before: r.before, View: r.view, Memory: &r.memory.removal, Now: r.now, Set: set, Live: live, Served: live.Served,
	}
	var err error
	live.Vanished, err = work.Vanished(ctx)
	live.Recorded = work.Recorded()
	return live, work.Findings, err
}

// Lost reports whether the record does not match the live objects.
func (c appliedRecord) Lost(live plan.Live, set *render.Set) bool {
	return c.r.memory.removal.RecordLost(plan.OwnerOf(c.r.sync.Namespace, c.r.sync.Name), live, set)
}

// Revision returns the newest revision of which anything was written.
func (c appliedRecord) Revision() string { return c.r.memory.removal.AppliedRevision() }

// revisionOf returns the revision that is evaluated, or the last one if none was fetched.
func (r *reconciliation) revisionOf(rev revision) string {
	if rev.Snapshot == nil {
		return r.sync.Status.LastAttemptedRevision
	}
	return rev.Snapshot.Revision
}

// requestedByPerson reports whether a person has requested this reconcile: a conflict with another client is then
// corrected once more.
func (r *reconciliation) requestedByPerson() bool {
	return r.sync.Status.LastHandledReconcileAt != r.before.Status.LastHandledReconcileAt
}
