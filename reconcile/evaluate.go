package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// evaluation is what is to be done, and what it was decided from: the third phase's result.
type evaluation struct {
	finding.Findings
	revision revision
	observed observed
	// Desired is what Git wants: the charts, their values, the schema and the definitions.
	Desired evaluate.Desired
	// Live is what was observed, with what only the record of what was applied knows: NodePools that another client has deleted.
	Live plan.Live
	// Plan is what is done with definitions, and what is held.
	Plan evaluate.Planned
	// NotUpgraded is why a change of the charts is not made; the rest was planned under the release that is installed.
	NotUpgraded error
}

// evaluate finds out what Git wants and plans it against what lives. It writes nothing.
func (r *reconciliation) evaluate(ctx context.Context, rev revision, obs observed) (evaluation, error) {
	return inSteps(ctx, r, unevaluated(rev, obs), []phaseStep[evaluation]{
		{step.ResolveCharts, r.resolveCharts},
		{step.Render, r.render},
		{step.SeeVanished, r.seeVanished},
		{step.MakePlan, r.makePlan},
	})
}

// unevaluated is what is known before anything is evaluated.
func unevaluated(rev revision, obs observed) evaluation {
	return evaluation{revision: rev, observed: obs, Desired: rev.Config, Live: obs.Live}
}

// evaluateInForce evaluates once more, under the release that is installed, where the charts that Git wants are refused or held.
func (r *reconciliation) evaluateInForce(ctx context.Context, ev evaluation, why error) (evaluation, error) {
	ev.NotUpgraded = why
	for _, do := range []func(context.Context, evaluation) (evaluation, error){r.takeSchemaInForce, r.render, r.makePlan} {
		var err error
		if ev, err = do(ctx, ev); err != nil {
			return ev, err
		}
	}
	return ev, nil
}

// resolveCharts finds the charts of the version in Git, and the schema of the definitions: that of their CRDs, or of what is
// installed where the change is known not to be made.
func (r *reconciliation) resolveCharts(ctx context.Context, ev evaluation) (evaluation, error) {
	err := r.desires(ctx, &ev, func(work *evaluate.DesiredStep, ctx context.Context) (err error) {
		ev.NotUpgraded, err = work.ResolveSchema(ctx, func() (error, error) {
			charts := r.chartStep(&ev)
			why, err := charts.Refused()
			ev.Join(charts.Findings)
			return why, err
		})
		return err
	})
	return ev, err
}

// takeSchemaInForce takes the schema of the release that is installed.
func (r *reconciliation) takeSchemaInForce(ctx context.Context, ev evaluation) (evaluation, error) {
	err := r.desires(ctx, &ev, (*evaluate.DesiredStep).TakeSchemaInForce)
	return ev, err
}

// render makes the Set.
func (r *reconciliation) render(ctx context.Context, ev evaluation) (evaluation, error) {
	err := r.desires(ctx, &ev, (*evaluate.DesiredStep).Render)
	return ev, err
}

// seeVanished finds the NodePools that were applied and that another client has deleted.
func (r *reconciliation) seeVanished(ctx context.Context, ev evaluation) (_ evaluation, err error) {
	work := r.removalStep(&done{evaluation: ev})
	ev.Live.Vanished, err = work.Vanished(ctx)
	ev.Live.Recorded = work.Recorded()
	ev.Join(work.Findings)
	return ev, err
}

// makePlan plans the Set against what lives.
func (r *reconciliation) makePlan(ctx context.Context, ev evaluation) (_ evaluation, err error) {
	work := r.policyStep(&ev)
	work.RecordLost = r.memory.removal.RecordLost(plan.OwnerOf(r.sync.Namespace, r.sync.Name), ev.Live, ev.Desired.Set)
	ev.Plan, err = work.Make(ctx)
	ev.Join(work.Findings)
	return ev, err
}

// desires takes one step towards what Git wants.
func (r *reconciliation) desires(ctx context.Context, ev *evaluation, do func(*evaluate.DesiredStep, context.Context) error) error {
	work := r.desiredStep(ev)
	err := do(work, ctx)
	ev.Join(work.Findings)
	return err
}

func (r *reconciliation) desiredStep(ev *evaluation) *evaluate.DesiredStep {
	return &evaluate.DesiredStep{
		DesiredTools: evaluate.DesiredTools{
			Cached: r.Client, Uncached: r.Uncached, Store: r.Charts, Releases: r.Install, Schemas: &r.schemas,
			Confine: r.Confine, Shared: r.Values, Grants: r.Settings.Grants, CABundle: r.Settings.CABundle(),
			KarpenterNamespaces: r.Settings.KarpenterNamespaces,
		},
		Desired: &ev.Desired, Snapshot: ev.revision.Snapshot, Sync: r.sync, Observed: r.before.Status.ObservedGeneration,
		View: r.view, Live: ev.Live, Memory: &r.memory.desired, Now: r.now, Timeout: r.sync.GetTimeout(), Retry: r.sync.GetRetryInterval(), Attempt: fmt.Sprint(r.memory.fetch.Attempt()),
		NotUpgraded: ev.NotUpgraded,
		Secret:      r.readSecret,
		Labelled: func(ctx context.Context) (client.Reader, func() time.Duration, error) {
			return r.watches.Labelled(ctx, r.Labelled, r.Uncached)
		},
		HideValues: r.memory.conclude.HideValues, HideCredential: r.memory.conclude.HideCredential,
	}
}

// policyStep is the planning.
func (r *reconciliation) policyStep(ev *evaluation) *evaluate.PlanStep {
	last, _, _ := r.memory.fetch.Last()
	branch, set, retry := r.sourceStep(), ev.Desired.Set, r.sync.GetRetryInterval()
	return &evaluate.PlanStep{
		PlanTools: evaluate.PlanTools{
			Cached: r.Client, Uncached: r.Uncached, Expire: r.Client, ServesApprovals: r.watches.ServesApprovals, Registry: &r.registry, Namespace: r.Settings.Namespace, Takes: r.Settings.Takes, Confine: r.Confine,
			CABundle: r.Settings.CABundle(), Fetch: r.fetchFor, Look: r.Look,
		},
		Sync: r.sync, Before: r.before.Status, Recorded: r.memory.removal.AppliedRevision(), Snapshot: cmp.Or(ev.revision.Snapshot, last),
		Set: set, Karpenter: ev.Desired.Karpenter, Schema: ev.Desired.Schema, Live: ev.Live, Applied: r.memory.changes.Forms(), Memory: &r.memory.policy,
		Now: r.now, Retry: retry,
		Hosts:      r.view.PoolHostsOf(r.sync.Status.Karpenter, r.Settings.Own, ev.Live.NodeClaims),
		Resolve:    r.resolveStep(ev.Desired, ev.observed.Account).Answers,
		Loads:      cluster.Loads(r.view.Uncached),
		DaemonSets: r.view.DaemonSetsOf(ev.Live.NodeClaims, r.now, retry),
		Landing:    r.memory.landing.For(r.Landing, r.now, set.Fingerprint(), r.sync.GetAnnotations()[meta.ReconcileRequestAnnotation], func() { r.Look(r.name()) }),
		Order:      branch.Order, FindOrder: branch.FindOrder, Read: branch.Read,
		ChangesCharts: func() bool { return r.chartStep(ev).Changes() },
	}
}

// chartStep is the work on the charts, from what was evaluated.
func (r *reconciliation) chartStep(ev *evaluation) *upgrade.Step {
	git := ev.Desired
	return &upgrade.Step{
		Tools: upgrade.Tools{Client: r.Nodes.Client, Helm: r.Install, Logs: r.Logs, Schemas: &r.schemas, StillLeader: r.Settings.StillLeader},
		Wanted: upgrade.Wanted{
			Karpenter: git.Karpenter, Charts: git.Charts, Values: git.Values, Permit: r.desiredStep(ev).Permit,
			Revision: r.revisionOf(ev), Set: git.Set, Serving: git.Serving, Older: ev.Plan.Older, Frozen: ev.Plan.FrozenNow(),
		},
		Sync: r.sync, View: r.view, Live: ev.Live, Memory: &r.memory.install,
		Now: r.now, Timeout: r.sync.GetTimeout(), Retry: r.sync.GetRetryInterval(), Insist: r.insists(),
		Hide: r.memory.conclude.Hide,
	}
}

// revisionOf is the revision that is evaluated, or the last one if none was fetched.
func (r *reconciliation) revisionOf(ev *evaluation) string {
	if ev.revision.Snapshot == nil {
		return r.sync.Status.LastAttemptedRevision
	}
	return ev.revision.Snapshot.Revision
}

// insists reports whether a person has asked for this reconcile: what is fought for is corrected once more.
func (r *reconciliation) insists() bool {
	return r.sync.Status.LastHandledReconcileAt != r.before.Status.LastHandledReconcileAt
}
