package evaluate

import (
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// Evaluation is the plan for a reconcile, and what it was made from.
type Evaluation struct {
	finding.Findings
	// Desired is what Git wants: the charts, their values, the schema and the definitions.
	Desired Desired
	// Live contains the live objects. Evaluate adds what only the record of what was applied knows: NodePools that
	// another client has deleted.
	Live plan.Live
	// Plan is what happens to definitions, and what is held.
	Plan Planned
	// NotUpgraded is why a change of the charts is not made; the rest was planned under the release that is installed.
	NotUpgraded error
}

// Inputs are the dependencies of an evaluation. The daemon, `plumbline plan` and the reviews of pull requests evaluate
// with the same functions, and differ only in what they may read.
type Inputs struct {
	// Wanted, Planning and Charts are the steps for what Git wants, for the plan, and for Karpenter's charts. The
	// results of earlier steps are empty: DesiredStep, PlanStep and ChartStep fill them in.
	Wanted   DesiredStep
	Planning PlanStep
	Charts   upgrade.Step
	// Record is what was applied.
	Record Record
	// WithoutCharts is called if what the charts of the version in Git contain is unknown, and returns the error unless
	// the evaluation can continue without them; if nil, it never can.
	WithoutCharts func(ctx context.Context, ev Evaluation, err error) (Evaluation, error)
	// Trace records how long each step took; nil records nothing.
	Trace *step.Trace
}

// Record is what was applied, according to the record in the cluster.
type Record interface {
	// See reads the record, and adds to the live objects what only the record knows.
	See(ctx context.Context, live plan.Live, set *render.Set) (plan.Live, finding.Findings, error)
	// Lost reports whether the record does not match the live objects: it was deleted, restored, or has lost its
	// revision.
	Lost(live plan.Live, set *render.Set) bool
	// Revision returns the newest revision of which anything was written; empty if the record has none.
	Revision() string
}

// Configure reads plumbline.yaml.
func Configure(ctx context.Context, in Inputs, ev Evaluation) (Evaluation, error) {
	return in.runDesiredStep(ctx, ev, (*DesiredStep).Configure)
}

// Evaluate finds out what Git wants, starting with what Configure has read, and plans it against the live objects. It
// writes nothing to the cluster, except that expired Approvals are deleted.
func Evaluate(ctx context.Context, in Inputs, ev Evaluation) (Evaluation, error) {
	return step.All(ctx, in.Trace, ev, []step.Of[Evaluation]{
		{Name: step.ResolveCharts, Do: in.ResolveCharts},
		{Name: step.Render, Do: in.Render},
		{Name: step.SeeVanished, Do: in.SeeVanished},
		{Name: step.MakePlan, Do: in.MakePlan},
	})
}

// InForce evaluates again, under the release that is installed, because a change of the charts is refused or held; why
// is the reason.
func InForce(ctx context.Context, in Inputs, ev Evaluation, why error) (Evaluation, error) {
	ev.NotUpgraded = why
	ev, err := in.runDesiredStep(ctx, ev, (*DesiredStep).UseSchemaInForce)
	if err == nil {
		ev, err = in.Render(ctx, ev)
	}
	if err == nil {
		ev, err = in.MakePlan(ctx, ev)
	}
	return ev, err
}

// ResolveCharts finds the charts of the version in Git, and the schema of the definitions: that of their CRDs, or of
// what is installed if it is known that the change is not made.
func (in Inputs) ResolveCharts(ctx context.Context, ev Evaluation) (Evaluation, error) {
	var notUpgraded error
	ev, err := in.runDesiredStep(ctx, ev, func(work *DesiredStep, ctx context.Context) (err error) {
		notUpgraded, err = work.ResolveSchema(ctx, func() (error, error) {
			charts := in.ChartStep(work.evaluation())
			why, err := charts.Refused()
			work.Join(charts.Findings)
			return why, err
		})
		return err
	})
	ev.NotUpgraded = notUpgraded
	if err != nil && in.WithoutCharts != nil {
		return in.WithoutCharts(ctx, ev, err)
	}
	return ev, err
}

// evaluation returns what the step has found so far.
func (s *DesiredStep) evaluation() Evaluation {
	return Evaluation{Desired: *s.Desired, Live: s.Live, NotUpgraded: s.NotUpgraded}
}

// Render renders the Set.
func (in Inputs) Render(ctx context.Context, ev Evaluation) (Evaluation, error) {
	return in.runDesiredStep(ctx, ev, (*DesiredStep).Render)
}

// SeeVanished finds the NodePools that were applied and that another client has deleted.
func (in Inputs) SeeVanished(ctx context.Context, ev Evaluation) (Evaluation, error) {
	live, found, err := in.Record.See(ctx, ev.Live, ev.Desired.Set)
	ev.Live = live
	ev.Join(found)
	return ev, err
}

// MakePlan plans the Set against the live objects.
func (in Inputs) MakePlan(ctx context.Context, ev Evaluation) (_ Evaluation, err error) {
	work := in.PlanStep(ev)
	work.RecordLost = in.Record.Lost(ev.Live, ev.Desired.Set)
	ev.Plan, err = work.Make(ctx)
	ev.Join(work.Findings)
	return ev, err
}

// runDesiredStep runs one step of DesiredStep.
func (in Inputs) runDesiredStep(ctx context.Context, ev Evaluation, do func(*DesiredStep, context.Context) error) (Evaluation, error) {
	work := in.DesiredStep(ev)
	err := do(work, ctx)
	ev.Desired = *work.Desired
	ev.Join(work.Findings)
	return ev, err
}

// DesiredStep returns the step for what Git wants, with what was found so far.
func (in Inputs) DesiredStep(ev Evaluation) *DesiredStep {
	work := in.Wanted
	work.Desired, work.Live, work.NotUpgraded = &ev.Desired, ev.Live, ev.NotUpgraded
	return &work
}

// PlanStep returns the step for the plan, with what was found so far.
func (in Inputs) PlanStep(ev Evaluation) *PlanStep {
	work := in.Planning
	work.Set, work.Karpenter, work.FileValues, work.Schema, work.Live = ev.Desired.Set, ev.Desired.Karpenter, ev.Desired.FileValues, ev.Desired.Schema, ev.Live
	if in.Planning.Ask != nil {
		work.Resolve = in.Planning.Ask(ev.Desired.Cluster(in.Planning.Sync.Status.Karpenter))
	}
	work.Ignored = in.DesiredStep(ev).ignoredThroughout
	work.Recorded = in.Record.Revision()
	work.ChangesCharts = func() bool { return in.ChartStep(ev).Changes() }
	return &work
}

// ChartStep returns the step for Karpenter's charts, with what was found so far.
func (in Inputs) ChartStep(ev Evaluation) *upgrade.Step {
	work, git := in.Charts, ev.Desired
	work.Karpenter, work.Charts, work.Values, work.Permit = git.Karpenter, git.Charts, git.Values, in.DesiredStep(ev).Permit
	work.Set, work.Serving, work.Older, work.Frozen = git.Set, git.Serving, ev.Plan.Older, ev.Plan.FrozenNow()
	work.Live = ev.Live
	return &work
}
