package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/policy"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// pass is one look at one NodeSync: what each step found, for the steps after
// it and for the conclusion.
type pass struct {
	*Reconciler
	finding.Findings
	sync   *v1alpha1.NodeSync
	before *v1alpha1.NodeSync
	memory *memory
	view   *cluster.View
	now    time.Time

	snapshot *render.Snapshot
	// want is what Git wants, as far as the steps have come.
	want desired.Desired
	// namespaceGoes says that the NodeSync's namespace is being deleted.
	namespaceGoes bool
	// served says that Karpenter's kinds are, so that live has what there is.
	served  bool
	live    plan.Live
	plan    policy.Planned
	applied apply.Result
	stages  stages

	// fault is what stopped the pass.
	fault *fault.Error
	// unfetched is why the source could not be fetched, where the pass goes on
	// with the last Snapshot.
	unfetched error
	// unverified is why the revision does not have the signatures that it needs.
	unverified error
	// collision is the emergency of a controller that runs under another cluster's
	// name; sawAccount says that it was looked for.
	collision  string
	sawAccount bool
	// notUpgraded is why a change of the charts is not made, where the pass goes on
	// under the release in force.
	notUpgraded error
	// unwritten joins the errors of objects that could not be written; the rest
	// of the Plan was.
	unwritten error
	// returned are recorded removals that Git has an entry for again.
	returned []v1alpha1.Removal
	// drifted are objects that differ from Git and are left alone by `drift: Report`.
	drifted []render.Ref
	// held are the changes that would disrupt more nodes than the guard allows.
	held []plan.Change
	// launchless are the pools that get no nodes, each with why; looked says that
	// they were looked for.
	launchless []nodes.Launchless
	looked     bool
	// drifting says which nodes drift after a change of Karpenter that was not
	// foretold to replace them; watchedDrift says that they were looked for.
	drifting     string
	watchedDrift bool
	// credentials are what the Secrets of the source and of registries held, where
	// this pass has read them.
	credentials []string
	// For metrics: how long each step took, what was done for removals, and how
	// often the NodeSync itself was written.
	took  []took
	deeds []teardown.Deed
	saves int

	suspended, elsewhere, finished bool
}

// begin starts a pass over a NodeSync.
func (r *Reconciler) begin(sync *v1alpha1.NodeSync) *pass {
	memory := r.memories.recall(client.ObjectKeyFromObject(sync), sync.UID)
	return &pass{
		Reconciler: r,
		sync:       sync,
		before:     sync.DeepCopy(),
		memory:     memory,
		view:       &cluster.View{Cached: r.Client, Uncached: r.Uncached, Memory: &memory.cluster},
		now:        r.Settings.Now(),
	}
}

// attempt is the way of the data.
func (p *pass) attempt() []step {
	return []step{
		{stepFetch, p.fetch},
		{stepVerify, p.verify},
		{stepConfigure, p.configure},
		{stepSee, p.see},
		{stepVerifyCloud, p.verifyCloud},
		{stepSeeCollision, p.seeCollision},
		{stepResolveCharts, p.resolveCharts},
		{stepRender, p.render},
		{stepSeeVanished, p.seeVanished},
		{stepMakePlan, p.makePlan},
		{stepInstallCharts, p.installCharts},
		{stepApplyPlan, p.applyPlan},
		{stepObserve, p.observe},
		{stepRecordApplied, p.recordApplied},
		{stepSeeLaunches, p.seeLaunches},
		{stepSeeNodeDrift, p.seeNodeDrift},
		{stepSettleCharts, p.settleCharts},
		{stepRemove, p.remove},
	}
}

// run takes the steps in order until one fails.
func (p *pass) run(ctx context.Context, steps ...step) {
	for _, s := range steps {
		p.Points.Step(string(s.name))
		began := p.Settings.Now()
		err := s.take(ctx)
		p.took = append(p.took, took{step: s.name, duration: p.Settings.Now().Sub(began)})
		if err != nil {
			p.fault = fault.Classify(err)
			p.stopped(err)
			return
		}
	}
}

// stopped draws from an error what the next pass has to know.
func (p *pass) stopped(err error) {
	if source.Lost(err) {
		p.memory.snapshot = nil // the next pass fetches it anew
	}
	if p.fault.Class == fault.Waiting {
		p.Wait(p.fault.Reason, err.Error())
	}
}

// wakeNow asks for a pass at once.
func (p *pass) wakeNow() { p.WakeBy(p.now) }

func (p *pass) name() types.NamespacedName { return client.ObjectKeyFromObject(p.sync) }

func (p *pass) timeout() time.Duration {
	if p.sync.Spec.Timeout == nil {
		return 2 * time.Minute
	}
	return p.sync.Spec.Timeout.Duration
}

func (p *pass) retryInterval() time.Duration {
	if p.sync.Spec.RetryInterval == nil {
		return p.sync.Spec.Interval.Duration
	}
	return p.sync.Spec.RetryInterval.Duration
}
