package reconcile

import (
	"context"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/apply/changes"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/reconcile/train"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// done is what was written, and what was found afterwards: the fourth phase's result.
type done struct {
	finding.Findings
	// evaluation is what was carried out: as Git wants, or as the installed release requires.
	evaluation evaluation
	// Account is AWS's answer about the account, confirmed again for a change of the charts; nil if it was not.
	Account *cloud.Verdict
	// Charts are how far the CRDs and the controller are.
	Charts upgrade.Installed

	// Unrecorded reports that the API server denies the status in which the changes are recorded before they are written.
	Unrecorded bool
	// Work is what was written. Its Durations are the trace of the reconcile, and added by the conclusion.
	Work status.Work
	// Unwritten joins the errors of definitions that could not be written.
	Unwritten error
	// Drifts are the objects that another client has changed or deleted, and Held the changes that are held; nil if the
	// reconcile did not get that far.
	Drifts []status.Drift
	Held   []status.Held
	// Ready is how far each definition is.
	Ready cluster.ByRef

	Nodes nodesSeen
	// Preflight is what the checks before the writes have found.
	Preflight preflightSeen
	// Images is what the image train has found, nil if it was not asked.
	Images *train.Answer
	// Ended is how the deletion of the NodeSync has ended; empty before that.
	Ended string
}

// account returns the newest answer about the account.
func (d *done) account() *cloud.Verdict {
	if d.Account != nil {
		return d.Account
	}
	return d.evaluation.observed.Account
}

// execute installs the charts, applies what has changed, checks what nodes have done since, and advances removals by
// one step.
func (r *reconciliation) execute(ctx context.Context, ev evaluation) (done, error) {
	checked := r.preflight(ctx, ev)
	d, err := step.Take(ctx, r.trace, step.InstallCharts, func(ctx context.Context) (done, error) { return r.installCharts(ctx, ev) })
	d.Preflight = checked
	if err != nil {
		return d, err
	}
	if r.Settings.Installing() {
		d.Wait("the teardown", "plumbline teardown has Karpenter's controller run again, and nothing else is applied")
		return d, nil
	}
	return step.All(ctx, r.trace, d, []step.Of[done]{
		{Name: step.Announce, Do: r.announce},
		{Name: step.RecordNames, Do: r.runServedRemovalStep((*removal.Step).RecordNames)},
		{Name: step.ApplyPlan, Do: r.applyPlan},
		{Name: step.Observe, Do: r.observeReady},
		{Name: step.RecordApplied, Do: r.runServedRemovalStep((*removal.Step).RecordApplied)},
		{Name: step.SeeLaunches, Do: r.observeLaunches},
		{Name: step.SeeNodeDrift, Do: r.observeNodeDrift},
		{Name: step.SeeRollout, Do: r.observeRollout},
		{Name: step.SeeInstances, Do: r.observeInstances},
		{Name: step.SeeIdentity, Do: r.observeIdentity},
		{Name: step.SeeImages, Do: r.observeImages},
		{Name: step.SeeTerminations, Do: r.observeTerminations},
		{Name: step.SettleCharts, Do: r.settleCharts},
		{Name: step.Remove, Do: r.runServedRemovalStep((*removal.Step).Run)},
	})
}

// installCharts installs the CRD chart and the main chart, or checks whether another tool has. If the change is refused
// or held while a release is installed, the revision is evaluated again under that release.
func (r *reconciliation) installCharts(ctx context.Context, ev evaluation) (done, error) {
	d := done{evaluation: ev}
	if ev.Desired.Karpenter.Management == render.External && r.sync.Status.Karpenter == nil {
		// Written before it is done: the next reconcile relies on it.
		r.sync.Status.Karpenter = ev.Desired.Fixed(nil)
		d.Wait("the first install", "what it fixes is recorded first")
		d.WakeBy(r.now)
		return d, nil
	}
	r.sync.Status.Karpenter = ev.Desired.Fixed(r.sync.Status.Karpenter)
	r.memory.account.Note(r.sync.Status.Karpenter, ev.observed.Account)
	if ev.NotUpgraded != nil {
		return r.runChartStep(ctx, d, (*upgrade.Step).Serve)
	}
	d, err := r.runChartStep(ctx, d, (*upgrade.Step).Run)
	if t := r.sync.Status.Karpenter.Target; t != nil && upgrade.InProgress(*t) {
		r.notePartlyApplied(ev)
	}
	if err == nil || !upgrade.StaysInForce(r.sync.Status.Karpenter, err) {
		return d, err
	}
	ev.Join(d.Findings) // earlier findings stay first
	d.Findings = finding.Findings{}
	d.evaluation, err = r.evaluateInForce(ctx, ev, err)
	r.publish(d.evaluation)
	if err != nil {
		return d, err
	}
	return r.runChartStep(ctx, d, (*upgrade.Step).Serve)
}

// runChartStep runs one step of the charts: it installs them as in Git, or checks the release that is installed.
func (r *reconciliation) runChartStep(
	ctx context.Context, d done, do func(*upgrade.Step, context.Context) (upgrade.Installed, error),
) (_ done, err error) {
	work := r.chartStep(d.evaluation)
	work.Confirm = func(ctx context.Context) (err error) {
		d, err = r.confirmAccount(ctx, d)
		return err
	}
	d.Charts, err = do(work, ctx)
	d.Join(work.Findings)
	return r.observeHeartbeat(ctx, d), err
}

// confirmAccount runs before each change of the charts: a positive answer may be too old for what cannot be undone.
func (r *reconciliation) confirmAccount(ctx context.Context, d done) (done, error) {
	ask := r.accountStep(d.evaluation.Desired, d.evaluation.Live)
	verdict := ask.Confirm(ctx)
	d.Join(ask.Findings)
	d.Account = &verdict
	return d, upgrade.Barrier(*r.sync.Status.Karpenter, verdict, r.sync.Spec.Guard.AllowUnverifiedAccount)
}

// settleCharts completes a change of the charts once every definition is Ready under the new controller.
func (r *reconciliation) settleCharts(_ context.Context, d done) (done, error) {
	if d.Charts.Controller.Ready {
		settled := upgrade.Settle(*r.sync.Status.Karpenter, d.Ready.Of(d.evaluation.Desired.Set, render.EC2NodeClass, render.NodePool))
		r.sync.Status.Karpenter = &settled
	}
	return d, nil
}

// applyPlan writes what has changed.
func (r *reconciliation) applyPlan(ctx context.Context, d done) (done, error) {
	work := r.changesStep(&d)
	result := work.Run(ctx)
	d.Join(work.Findings)
	d.Work.Written, d.Unwritten = result.Written, result.Unwritten
	if d.evaluation.Live.Served { // otherwise no object was read: which of them were changed or deleted is unknown
		d.Drifts = status.DriftsOf(d.evaluation.Plan.Plan, result.Written)
	}
	d.Held = status.HeldChanges(result.Held)
	switch {
	case result.Whole:
		r.sync.Status.LastAppliedRevision, r.sync.Status.LastAppliedInputs = d.evaluation.revision.Snapshot.Revision, d.evaluation.Desired.Set.Fingerprint()
		r.sync.Status.PartlyAppliedRevision, r.sync.Status.PartlyAppliedInputs = "", ""
	case len(result.Written) > 0:
		r.notePartlyApplied(d.evaluation)
	}
	return d, nil
}

// notePartlyApplied records that something of this revision was or will be written: what an older HEAD does not contain
// was not removed from Git.
func (r *reconciliation) notePartlyApplied(ev evaluation) {
	r.notePartlyAppliedInputs(ev)
	if ev.Plan.Doubt == nil {
		r.sync.Status.PartlyAppliedRevision = r.revisionOf(ev.revision)
	}
}

// notePartlyAppliedInputs records that something of other inputs than the last applied ones was or will be written, even
// if HEAD is older: restoring what was applied last is not drift correction from then on. A drift correction records
// nothing.
func (r *reconciliation) notePartlyAppliedInputs(ev evaluation) {
	status := &r.sync.Status
	if inputs := ev.Desired.Set.Fingerprint(); status.LastAppliedInputs != "" && status.LastAppliedInputs != inputs {
		status.PartlyAppliedInputs = inputs
	}
}

// changesStep returns the step for the definitions.
func (r *reconciliation) changesStep(d *done) *changes.Step {
	ev := &d.evaluation
	return &changes.Step{
		Tools: changes.Tools{Client: r.Cluster.Client, Uncached: r.Cluster.Uncached, Arrivals: &r.arrivals, StillLeader: r.Settings.StillLeader},
		Owner: plan.OwnerOf(r.sync.Namespace, r.sync.Name), Plan: ev.Plan.Plan, Set: ev.Desired.Set, Live: ev.Live,
		CRDs: d.Charts.CRDs, Controller: d.Charts.Controller, Changing: d.Charts.Changing, Unrecorded: d.Unrecorded,
		Memory: &r.memory.changes,
		Now:    r.now, Timeout: r.sync.GetTimeout(), Retry: r.sync.GetRetryInterval(), StallAfter: r.sync.GetStallAfter(),
		Requested: r.requestedByPerson(),
	}
}

// removing is one step of removals.
type removing func(*removal.Step, context.Context) (removal.Result, error)

// runServedRemovalStep runs one step of removals once the kinds are served: before that there is nothing to check, and
// the wait is recorded.
func (r *reconciliation) runServedRemovalStep(do removing) func(context.Context, done) (done, error) {
	return func(ctx context.Context, d done) (done, error) {
		if !d.Charts.CRDs.Ready {
			return d, nil
		}
		return r.runRemovalStep(do)(ctx, d)
	}
}

// runRemovalStep runs one step of removals.
func (r *reconciliation) runRemovalStep(do removing) func(context.Context, done) (done, error) {
	return func(ctx context.Context, d done) (done, error) {
		work := r.removalStep(&d)
		result, err := do(work, ctx)
		d.Join(work.Findings)
		d.Work.Removed = append(d.Work.Removed, result.Writes...)
		if result.Ended != "" {
			d.Ended = result.Ended
		}
		return d, err
	}
}

func (r *reconciliation) removalStep(d *done) *removal.Step {
	ev := &d.evaluation
	cluster, region := ev.Desired.Cluster(r.sync.Status.Karpenter)
	planning, revision := r.policyStep(*ev), r.revisionOf(ev.revision)
	return &removal.Step{
		Tools: removal.Tools{
			Client: r.Client, Uncached: r.Uncached, Nodes: r.Cluster.Clients, Log: r.controllerLog, Gate: r.chartStep(*ev).On, Denied: r.denied,
			EC2:      func(ctx context.Context, region string) (removal.EC2, error) { return r.cloud()(ctx, region) },
			AskEvery: r.Settings.CloudInterval, StillLeader: r.Settings.StillLeader, Reached: r.Points.Phase,
		},
		Sync: r.sync, Before: r.before, View: r.view, Memory: &r.memory.removal, Now: r.now,
		Set: ev.Desired.Set, Live: ev.Live, Served: ev.Live.Served, Plan: ev.Plan.Plan,
		Revision: revision, Applied: d.Unwritten == nil && r.sync.Status.LastAppliedRevision == revision,
		Written: d.Work.Writes(), Ready: d.Ready,
		Controller: d.Charts.Controller, Alive: d.Charts.Alive,
		Cluster: cluster, Region: region, Account: d.account(),
		NewOwner: planning.NewOwner, Left: planning.Left, Withheld: ev.Plan.Withheld, ReadSince: r.sourceStep().ReadSince,
	}
}

// denied returns why the deletion guard denies Karpenter's controller the removal of its own finalizers; empty if it
// does not.
func (r *reconciliation) denied(ctx context.Context) string {
	accounts, err := r.accounts(ctx)
	if err != nil {
		return err.Error()
	}
	return r.Cluster.DeletionGuard.Denied(ctx, r.Cluster.Uncached, accounts).Message()
}

// accounts returns the ServiceAccounts of Karpenter's controller; none while its namespace is unknown.
func (r *reconciliation) accounts(ctx context.Context) ([]string, error) {
	namespace := r.karpenterNamespace()
	if namespace == "" {
		return nil, nil
	}
	return r.view.ServiceAccounts(ctx, namespace)
}
