package reconcile

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// conclude says what the pass has found.
func (p *pass) conclude(ctx context.Context) (ctrl.Result, error) {
	if p.plan.Plan != nil && p.snapshot != nil {
		p.plan.Note(ctx, p.sync, p.removalStep().Relabelled)
	}
	p.Guard = p.Settings.DeletionGuard.Beside(ctx, p.Nodes.Uncached, p.Settings.Namespace, p.want.Karpenter, p.now)
	if accounts, err := p.accounts(ctx); err == nil && len(accounts) > 0 {
		p.Denial = p.Settings.DeletionGuard.DeniedLately(ctx, p.Nodes.Uncached, accounts, p.now)
	}
	return p.conclusion().Conclude(ctx)
}

// announce reports that many changes are about to be written, and records a rollout that begins and nodes that Karpenter may terminate.
func (p *pass) announce(ctx context.Context) error {
	changes := p.changesStep()
	writes := changes.Writes()
	begun := writes > 0 && p.rollouts().Begin(&p.sync.Status)
	if recorded := writes > 0 && p.recordTerminations(changes.Due()); !begun && !recorded && !conclude.Many(writes) {
		return nil
	}
	p.notePartlyApplied()
	step := p.conclusion()
	step.Applying = writes
	err := step.Announce(ctx)
	p.did.Stored, p.did.Saves = step.Stored, step.Saves
	return err
}

// recordTerminations records which of the changes that are about to be written let Karpenter terminate nodes without a replacement:
// the guard counts these together with those of later commits.
func (p *pass) recordTerminations(due []plan.Change) (recorded bool) {
	before := p.sync.Status.RecentTerminations
	if p.sync.Spec.Guard.GetRemovalPeriod() > 0 {
		p.sync.Status.RecentTerminations = plan.RecordTerminations(before, p.snapshot.Revision, due, metav1.NewTime(p.now.Truncate(time.Second)))
	}
	return !slices.Equal(before, p.sync.Status.RecentTerminations)
}

// conclusion is the pass as it is concluded.
func (p *pass) conclusion() *conclude.Step {
	found := p.Found
	if p.snapshot != nil {
		found.Revision, found.Commit = p.snapshot.Revision, p.snapshot.Commit
	}
	found.Cluster, _ = p.want.Cluster(p.sync.Status.Karpenter)
	found.Unpulled, found.Unkept = p.want.Unpulled, p.stages.Unkept
	found.NotUpgraded = nil
	if p.NotUpgraded != nil && !install.IsFrozen(p.NotUpgraded) {
		found.NotUpgraded = p.want.InForce(p.NotUpgraded)
	}
	found.Stages = conclude.Stages(p.want.Set, p.stages.CRDs, p.stages.Controller, p.stages.ready)
	removals := p.removalStep()
	found.Fought, found.HasNodes, found.Orphaned, found.Appliers = survey.Drifts(p.stages.Fought), p.live.HasNodes(), removals.Orphaned(), removals.Appliers()
	if p.plan.Plan != nil {
		found.InUse, found.Extra, found.DaemonSets, found.Changed, found.Planned = p.plan.InUse, p.plan.Extra, p.plan.DaemonSets, p.plan.Before(conclude.MostBefore), true
	}
	tools := p.voice()
	tools.History = fetch.Branch{Step: p.fetchStep(), Read: p.want.Read(&p.memory.desired)}
	return &conclude.Step{
		Tools: tools, Found: found, Work: p.did, Set: p.want.Set,
		Sync: p.sync, Before: p.before, Memory: &p.memory.conclude, Began: p.now,
	}
}

// voice is what conclusions speak to.
func (r *Reconciler) voice() conclude.Tools {
	return conclude.Tools{
		Client: r.Client, Events: r.Events, Metrics: r.Metrics, Meter: r.Meter, Reports: r.Reports, Notices: r.Notices,
		Now: r.Settings.Now, Namespace: r.Settings.Namespace, PageURL: r.Settings.PageURL,
	}
}
