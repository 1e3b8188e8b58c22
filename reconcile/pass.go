package reconcile

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/policy"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// pass is one look at one NodeSync: what each step found, for the steps after
// it and for the conclusion.
type pass struct {
	*Reconciler
	conclude.Found
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
	// account is what AWS says of the account; nil before it was asked.
	account *cloud.Verdict
	live    plan.Live
	plan    policy.Planned
	stages  stages

	// did is what was written and how long it took.
	did conclude.Deeds
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
		{stepAnnounce, p.announce},
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
		p.did.Took = append(p.did.Took, conclude.Took{Step: string(s.name), Duration: p.Settings.Now().Sub(began)})
		if err != nil {
			p.Fault = fault.Classify(err)
			p.stopped(err)
			return
		}
	}
}

// stopped draws from an error what the next pass has to know.
func (p *pass) stopped(err error) {
	if source.Lost(err) {
		p.memory.fetch.Lose()
	}
	if p.Fault.Class == fault.Waiting {
		p.Wait(p.Fault.Reason, err.Error())
	}
}

// wakeNow asks for a pass at once.
func (p *pass) wakeNow() { p.WakeBy(p.now) }

func (p *pass) name() types.NamespacedName { return client.ObjectKeyFromObject(p.sync) }

func (p *pass) timeout() time.Duration { return p.sync.GetTimeout() }

func (p *pass) retryInterval() time.Duration { return p.sync.GetRetryInterval() }

// revision is the one that the pass is about, or that the last one was.
func (p *pass) revision() string {
	if p.snapshot == nil {
		return p.sync.Status.LastAttemptedRevision
	}
	return p.snapshot.Revision
}

// timestamp is the pass's time as status holds it.
func (p *pass) timestamp() metav1.Time { return metav1.NewTime(p.now.Truncate(time.Second)) }
