package reconcile

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/changes"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// pass is one reconcile whose steps a test runs by hand, on values that it may set: what the phases have returned so
// far.
type pass struct {
	*reconciliation
	status.Found

	snapshot *render.Snapshot
	want     evaluate.Desired
	live     plan.Live
	account  *cloud.Verdict
	plan     evaluate.Planned
	stages   stages
	did      status.Work
}

// stages are how far the charts and the definitions are.
type stages struct {
	upgrade.Installed
	ready cluster.ByRef
}

// begin starts a reconcile of a NodeSync.
func (b *bed) begin(sync *v1alpha1.NodeSync) *pass { return &pass{reconciliation: b.start(sync)} }

// pass starts a reconcile of the NodeSync in the cluster.
func (b *bed) pass() *pass {
	b.t.Helper()
	return b.begin(b.read())
}

// outcome returns what the phases have returned so far.
func (p *pass) outcome() outcome {
	out := outcome{fault: p.Fault, finished: p.Finished, done: done{
		Findings: p.Findings, Account: p.account, Charts: p.stages.Installed, Ready: p.stages.ready,
		Work: p.did, Unwritten: p.Unwritten, Drifts: p.Drifts, Held: p.Held,
		Nodes: nodesSeen{
			LaunchFailures: p.LaunchFailures, SawLaunches: p.Looked, Drifting: p.Drifting, SawDrift: p.WatchedDrift,
			Rollout: p.Rollout, PoolRollouts: p.PoolRollouts, Restored: p.Restored, SawRollout: p.SawRollout, Instances: p.Instances, Terminations: p.Terminations,
			IdentityConflict: p.IdentityConflict, SawIdentity: p.SawIdentity,
		},
		evaluation: evaluation{
			revision:   revision{Snapshot: p.snapshot, Unfetched: p.Unfetched, Unverified: p.Unverified, Config: p.want},
			observed:   observed{Live: p.live, Unserved: p.Unserved, Account: p.account, Collision: p.Collision, SawCollision: p.SawAccount},
			Evaluation: evaluate.Evaluation{Desired: p.want, Live: p.live, Plan: p.plan, NotUpgraded: p.NotUpgraded},
		},
	}}
	switch {
	case p.Suspended:
		out.mode = suspended
	case p.Elsewhere:
		out.mode = otherNamespace
	}
	return out
}

// set stores what a phase has returned.
func (p *pass) set(out outcome) {
	ev := &out.evaluation
	p.Findings = join(ev.revision.Findings, ev.observed.Findings, ev.Findings, out.Findings)
	p.Fault, p.Finished, p.account, p.stages = out.fault, out.finished, out.account(), stages{Installed: out.Charts, ready: out.Ready}
	p.did = out.Work
	p.did.Durations = p.trace.Timings
	p.Unwritten, p.Drifts, p.Held = out.Unwritten, out.Drifts, out.Held
	p.LaunchFailures, p.Looked, p.Drifting, p.WatchedDrift = out.Nodes.LaunchFailures, out.Nodes.SawLaunches, out.Nodes.Drifting, out.Nodes.SawDrift
	p.Rollout, p.PoolRollouts, p.Restored, p.SawRollout = out.Nodes.Rollout, out.Nodes.PoolRollouts, out.Nodes.Restored, out.Nodes.SawRollout
	p.Instances, p.Terminations = out.Nodes.Instances, out.Nodes.Terminations
	p.IdentityConflict, p.SawIdentity = out.Nodes.IdentityConflict, out.Nodes.SawIdentity
	p.snapshot, p.Unfetched, p.Unverified, p.want, p.live = ev.revision.Snapshot, ev.revision.Unfetched, ev.revision.Unverified, ev.Desired, ev.Live
	p.Unserved, p.Collision, p.SawAccount, p.plan, p.NotUpgraded = ev.observed.Unserved, ev.observed.Collision, ev.observed.SawCollision, ev.Plan, ev.NotUpgraded
	p.CloudVerified = verified(p.account)
}

// does runs one step of the execution.
func (p *pass) does(ctx context.Context, do func(context.Context, done) (done, error)) (err error) {
	out := p.outcome()
	out.done, err = do(ctx, out.done)
	p.set(out)
	return err
}

// evaluates runs one step of the evaluation.
func (p *pass) evaluates(ctx context.Context, do func(evaluate.Inputs, context.Context, evaluate.Evaluation) (evaluate.Evaluation, error)) error {
	return p.does(ctx, p.planStep(do))
}

func (p *pass) fetch(ctx context.Context) error {
	rev, err := p.fetchSource(ctx)
	p.Join(rev.Findings)
	p.snapshot, p.Unfetched = rev.Snapshot, rev.Unfetched
	return err
}

func (p *pass) verify(ctx context.Context) error {
	rev, err := p.reconciliation.verify(ctx, revision{Snapshot: p.snapshot, Unfetched: p.Unfetched})
	p.Join(rev.Findings)
	p.Unverified = rev.Unverified
	return err
}

func (p *pass) desire(do func(*evaluate.DesiredStep, context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		return p.evaluates(ctx, func(in evaluate.Inputs, ctx context.Context, ev evaluate.Evaluation) (evaluate.Evaluation, error) {
			work := in.DesiredStep(ev)
			err := do(work, ctx)
			ev.Desired = *work.Desired
			ev.Join(work.Findings)
			return ev, err
		})
	}
}

func (p *pass) see(ctx context.Context) error { return p.does(ctx, p.readLive) }

func (p *pass) verifyCloud(ctx context.Context) error {
	return p.does(ctx, observeStep(p.reconciliation.verifyCloud))
}

func (p *pass) seeCollision(ctx context.Context) error {
	return p.does(ctx, observeStep(p.observeCollision))
}

func (p *pass) resolveCharts(ctx context.Context) error {
	return p.evaluates(ctx, evaluate.Inputs.ResolveCharts)
}

func (p *pass) render(ctx context.Context) error {
	err := p.evaluates(ctx, evaluate.Inputs.Render)
	p.publish(p.outcome().evaluation)
	return err
}

func (p *pass) seeVanished(ctx context.Context) error {
	return p.evaluates(ctx, evaluate.Inputs.SeeVanished)
}

func (p *pass) makePlan(ctx context.Context) error {
	return p.evaluates(ctx, evaluate.Inputs.MakePlan)
}

func (p *pass) installCharts(ctx context.Context) error {
	return p.does(ctx, func(ctx context.Context, d done) (done, error) {
		next, err := p.reconciliation.installCharts(ctx, d.evaluation)
		next.Findings = join(d.Findings, next.Findings)
		return next, err
	})
}

// mayChangeCharts runs before each change of the charts.
func (p *pass) mayChangeCharts(ctx context.Context) error { return p.does(ctx, p.confirmAccount) }

// charted runs one step of the charts.
func (p *pass) charted(ctx context.Context, do func(*upgrade.Step, context.Context) (upgrade.Installed, error)) error {
	return p.does(ctx, func(ctx context.Context, d done) (done, error) { return p.runChartStep(ctx, d, do) })
}

// brake finds which nodes do not match.
func (p *pass) brake(ctx context.Context, inForce bool) (pools []v1alpha1.PoolRollout) {
	_ = p.does(ctx, func(ctx context.Context, d done) (done, error) {
		d, pools = p.reconciliation.brake(ctx, d, inForce)
		return d, nil
	})
	return pools
}

func (p *pass) announce(ctx context.Context) error { return p.does(ctx, p.reconciliation.announce) }

func (p *pass) applyPlan(ctx context.Context) error { return p.does(ctx, p.reconciliation.applyPlan) }

func (p *pass) observe(ctx context.Context) error { return p.does(ctx, p.observeReady) }

func (p *pass) seeLaunches(ctx context.Context) error {
	return p.does(ctx, p.observeLaunches)
}

func (p *pass) seeNodeDrift(ctx context.Context) error {
	return p.does(ctx, p.observeNodeDrift)
}

func (p *pass) seeInstances(ctx context.Context) error {
	return p.does(ctx, p.observeInstances)
}

func (p *pass) seeTerminations(ctx context.Context) error {
	return p.does(ctx, p.observeTerminations)
}

func (p *pass) removes(do removing) func(context.Context) error {
	return func(ctx context.Context) error { return p.does(ctx, p.runRemovalStep(do)) }
}

func (p *pass) removesServed(do removing) func(context.Context) error {
	return func(ctx context.Context) error { return p.does(ctx, p.runServedRemovalStep(do)) }
}

func (p *pass) chartStep() *upgrade.Step {
	out := p.outcome()
	return p.reconciliation.chartStep(out.evaluation)
}

func (p *pass) policyStep() *evaluate.PlanStep {
	out := p.outcome()
	return p.reconciliation.policyStep(out.evaluation)
}

// desiredStep returns the step for what Git wants, with what the reconcile has found.
func (p *pass) desiredStep() *evaluate.DesiredStep {
	out := p.outcome()
	work := p.inputs(out.evaluation).DesiredStep(out.evaluation.Evaluation)
	work.Desired = &p.want
	return work
}

func (p *pass) changesStep() *changes.Step {
	out := p.outcome()
	return p.reconciliation.changesStep(&out.done)
}

func (p *pass) removalStep() *removal.Step {
	out := p.outcome()
	return p.reconciliation.removalStep(&out.done)
}

// takes runs steps until one fails.
func (p *pass) takes(ctx context.Context, steps ...func(context.Context) error) {
	for _, do := range steps {
		if p.Fault == nil {
			p.step(ctx, "", do)
		}
	}
}

// step runs one step under a name.
func (p *pass) step(ctx context.Context, name step.Name, do func(context.Context) error) {
	_, err := step.Take(ctx, p.trace, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	p.set(p.settle(p.outcome().done, err))
}

// take does what the NodeSync's mode requires.
func (p *pass) take(ctx context.Context, unheard error) {
	p.set(p.act(ctx, modeOf(p.sync, p.Settings, true, unheard), unheard))
}

// seeHeartbeat checks whether the controller renews its lease.
func (p *pass) seeHeartbeat(ctx context.Context) {
	_ = p.does(ctx, func(ctx context.Context, d done) (done, error) { return p.observeHeartbeat(ctx, d), nil })
}

// attempts runs all phases.
func (p *pass) attempts(ctx context.Context) { p.set(p.settle(p.phases(ctx))) }

// finish completes the deletion.
func (p *pass) finish(how string) {
	out := p.outcome()
	out.Ended = how
	p.set(p.reconciliation.finish(out))
}

func (p *pass) conclude(ctx context.Context) (ctrl.Result, error) {
	return p.reconciliation.conclude(ctx, p.outcome())
}

func (p *pass) conclusion() *status.Step {
	out := p.outcome()
	return p.reconciliation.conclusion(&out)
}
