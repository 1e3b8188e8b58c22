package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/changes"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/hold"
	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/instances"
	"github.com/plumbline-dev/plumbline/reconcile/landing"
	"github.com/plumbline-dev/plumbline/reconcile/memory"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/policy"
	"github.com/plumbline-dev/plumbline/reconcile/propose"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/reconcile/termination"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// remembered is what one pass leaves to the next, by room.
type remembered struct {
	lag       memory.Lag
	fetch     fetch.Memory
	desired   desired.Memory
	changes   changes.Memory
	install   install.Memory
	cluster   cluster.Memory
	account   account.Memory
	policy    policy.Memory
	landing   landing.Asker
	removal   removal.Memory
	rollout   nodes.RolloutMemory
	holds     hold.Asker
	proposals propose.Asker
	instances instances.Asker
	// reasons are why EC2NodeClasses are not Ready, from Karpenter's log.
	reasons changes.Reasons
	// terminations are what is terminating, and heartbeat is what was seen of the lease of Karpenter's controller.
	terminations termination.Memory
	heartbeat    upgrade.Heartbeat
	conclude     conclude.Memory
}

// pass is one look at one NodeSync: what each step found, for the steps after
// it and for the conclusion.
type pass struct {
	*Reconciler
	conclude.Found
	sync   *v1alpha1.NodeSync
	before *v1alpha1.NodeSync
	memory *remembered
	view   *cluster.View
	now    time.Time

	snapshot *render.Snapshot
	// want is what Git wants, as far as the steps have come.
	want desired.Desired
	// account is what AWS says of the account; nil before it was asked.
	account *cloud.Verdict
	live    plan.Live
	plan    policy.Planned
	stages  stages

	// did is what was written and how long it took.
	did conclude.Work
}

// stages is how far a pass has got, by Stage.
type stages struct {
	install.Installed
	// ready is the readiness of each definition that was looked at.
	ready observe.ByRef
}

// begin starts a pass over a NodeSync.
func (r *Reconciler) begin(sync *v1alpha1.NodeSync) *pass {
	known := r.recall(client.ObjectKeyFromObject(sync), sync.UID)
	return &pass{
		Reconciler: r,
		sync:       sync,
		before:     sync.DeepCopy(),
		memory:     known,
		view:       r.Nodes.View(&r.definitions, &known.cluster),
		now:        r.Settings.Now(),
	}
}

// attempt is the way of the data.
func (p *pass) attempt() []step.Step {
	return []step.Step{
		{Name: step.Fetch, Take: p.fetch},
		{Name: step.Verify, Take: p.verify},
		{Name: step.Configure, Take: p.desire((*desired.Step).Configure)},
		{Name: step.See, Take: p.see},
		{Name: step.VerifyCloud, Take: p.verifyCloud},
		{Name: step.SeeCollision, Take: p.seeCollision},
		{Name: step.ResolveCharts, Take: p.resolveCharts},
		{Name: step.Render, Take: p.render},
		{Name: step.SeeVanished, Take: p.seeVanished},
		{Name: step.MakePlan, Take: p.makePlan},
		{Name: step.InstallCharts, Take: p.installCharts},
		{Name: step.Announce, Take: p.announce},
		{Name: step.RecordNames, Take: p.removesServed((*removal.Step).RecordNames)},
		{Name: step.ApplyPlan, Take: p.applyPlan},
		{Name: step.Observe, Take: p.observe},
		{Name: step.RecordApplied, Take: p.removesServed((*removal.Step).RecordApplied)},
		{Name: step.SeeLaunches, Take: p.seeLaunches},
		{Name: step.SeeNodeDrift, Take: p.seeNodeDrift},
		{Name: step.SeeRollout, Take: p.seeRollout},
		{Name: step.SeeInstances, Take: p.seeInstances},
		{Name: step.SeeTerminations, Take: p.seeTerminations},
		{Name: step.SettleCharts, Take: p.settleCharts},
		{Name: step.Remove, Take: p.removesServed((*removal.Step).Run)},
	}
}

// run takes the steps in order until one fails, and draws from its error what the next pass has to know.
func (p *pass) run(ctx context.Context, steps ...step.Step) {
	took, err := step.Run(ctx, steps, p.Settings.Now, p.Points.Step)
	p.did.Durations = append(p.did.Durations, took...)
	if err == nil {
		return
	}
	if p.Fault = fault.Classify(err); p.Fault.Class == fault.Waiting {
		p.Wait(p.Fault.Reason, err.Error())
	}
	if source.Lost(err) {
		p.memory.fetch.Lose()
	}
}

// see reads what lives from the watch cache, and what it lacks of the last pass's writes.
func (p *pass) see(ctx context.Context) (err error) {
	if p.live, err = p.view.Live(ctx); err != nil {
		return err
	}
	p.live = p.memory.changes.Newest(p.live, p.now)
	p.live = p.live.With(&p.sync.Status)
	return p.seeKinds(ctx)
}

// seeKinds notes why Karpenter's kinds are not served. If they were when the NodeSync was Ready, that is reported before
// anything else: the repair of the charts takes seconds, in which the commit would still be a success.
func (p *pass) seeKinds(ctx context.Context) error {
	if p.live.Served {
		return nil
	}
	established, err := p.view.Established(ctx)
	if err != nil {
		return err
	}
	p.Unserved = established.Message
	if p.Unserved != "" && conditions.IsReady(p.before) {
		p.WakeBy(p.now)
		return fault.Waits(errors.New(p.Unserved))
	}
	return nil
}

func (p *pass) name() types.NamespacedName { return client.ObjectKeyFromObject(p.sync) }

// revision is the one that the pass is about, or that the last one was.
func (p *pass) revision() string {
	if p.snapshot == nil {
		return p.sync.Status.LastAttemptedRevision
	}
	return p.snapshot.Revision
}
