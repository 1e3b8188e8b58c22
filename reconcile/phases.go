package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/changes"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/reconcile/train"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
)

// reconciliation is one reconcile of one NodeSync: what its phases share. They change nothing of it except the
// NodeSync's status, which records what must not be lost before it is done.
type reconciliation struct {
	*Reconciler
	// sync is the NodeSync as it will be saved, before as it was read.
	sync, before *v1alpha1.NodeSync
	// memory is what the last reconcile has left.
	memory *remembered
	// view reads the cluster whose nodes are managed.
	view *cluster.View
	// now is the time at which the reconcile started.
	now time.Time
	// trace is how long each step took, for metrics.
	trace *step.Trace
}

// remembered is kept from one reconcile to the next, by the package that owns it. Losing it costs only time.
type remembered struct {
	lag       watch.CacheLag
	fetch     fetch.Memory
	publisher fetch.Publisher
	desired   evaluate.DesiredMemory
	changes   changes.Memory
	install   upgrade.Memory
	cluster   cluster.Memory
	account   account.Memory
	policy    evaluate.PlanMemory
	landing   simulate.LandingChecker
	removal   removal.Memory
	rollout   rollout.Memory
	static    rollout.StaticMemory
	holds     rollout.HoldChecker
	waves     rollout.WaveMemory
	proposals rollout.ProposalWorker
	instances account.InstanceChecker
	amis      account.AMIChecker
	response  account.ResponseMemory
	trail     account.TrailReader
	preflight account.PreflightChecker
	train     train.Worker
	// reasons are why EC2NodeClasses are not Ready, from Karpenter's log.
	reasons changes.Reasons
	// terminations are what is terminating, and heartbeat is the last state of the lease of Karpenter's controller.
	terminations removal.TerminationMemory
	heartbeat    upgrade.Heartbeat
	conclude     status.Memory
}

// start starts a reconcile of a NodeSync.
func (r *Reconciler) start(sync *v1alpha1.NodeSync) *reconciliation {
	known := r.recall(client.ObjectKeyFromObject(sync), sync.UID)
	return &reconciliation{
		Reconciler: r,
		sync:       sync,
		before:     sync.DeepCopy(),
		memory:     known,
		view:       r.Cluster.View(&r.definitions, &known.cluster),
		now:        r.Settings.Now(),
		trace:      &step.Trace{Now: r.Settings.Now, Begin: func(name step.Name) { r.Points.Step(string(name)) }},
	}
}

func (r *reconciliation) name() types.NamespacedName { return client.ObjectKeyFromObject(r.sync) }

// worked returns how long the reconcile has taken so far, without the time for writing definitions: that is the API
// server's, and the events after a commit of thousands of objects must trigger the reconcile that reports them.
func (r *reconciliation) worked() time.Duration {
	worked := r.Settings.Now().Sub(r.now)
	for _, timing := range r.trace.Timings {
		if timing.Step == step.ApplyPlan {
			worked -= timing.Duration
		}
	}
	return worked
}

// run does what the mode requires, and concludes it. A phase that fails ends the reconcile: the findings up to then are
// concluded, and what must not wait for the next commit is done. listenError is why watches could not start.
func (r *reconciliation) run(ctx context.Context, mode mode, listenError error) (ctrl.Result, error) {
	return r.conclude(ctx, r.act(ctx, mode, listenError))
}

// act does what the mode requires. Disruption budgets that removals and waves have lent to Karpenter are revoked if these do
// not proceed, and while a reconcile takes long.
func (r *reconciliation) act(ctx context.Context, mode mode, listenError error) outcome {
	leased := r.leasedBudgets()
	defer leased.unless(ctx)()
	out := r.inMode(ctx, mode, listenError)
	if !actionsAfter(out).leases {
		leased.revoke(ctx, &out.Findings)
	}
	return out
}

// inMode does what the mode requires.
func (r *reconciliation) inMode(ctx context.Context, mode mode, listenError error) (out outcome) {
	switch mode {
	case normal:
		out = r.pauseAfterFailure(ctx, r.settle(r.phases(ctx)))
	case unwatched:
		out = r.settle(step.Take(ctx, r.trace, step.Listen, func(context.Context) (done, error) { return done{}, listenError }))
		out.WakeBy(r.now.Add(r.sync.GetRetryInterval())) // no watch triggers it
	case adopting:
		out = r.settle(step.Take(ctx, r.trace, step.AddFinalizer, r.addFinalizer))
	case suspended:
		r.policyStep(evaluation{}).Answer(ctx)
	case draining:
		r.policyStep(evaluation{}).Answer(ctx)
		out = r.finish(r.settle(r.drainOrDelete(ctx)))
	case deleting:
		out = r.finish(r.settle(r.drainOrDelete(ctx)))
	case otherNamespace, filling, answering: // nothing is checked
	}
	out.mode = mode
	return out
}

// phases fetches, observes, evaluates and executes. Each phase's result contains its input, so that the last one
// contains everything that is known.
func (r *reconciliation) phases(ctx context.Context) (done, error) {
	revision, err := r.fetch(ctx)
	if err != nil {
		return done{evaluation: unevaluated(revision, observed{})}, err
	}
	seen, err := r.observe(ctx, revision)
	if err != nil {
		return done{evaluation: unevaluated(revision, seen)}, err
	}
	evaluation, err := r.evaluate(ctx, revision, seen)
	r.publish(evaluation)
	if err != nil {
		return done{evaluation: evaluation}, err
	}
	return r.execute(ctx, evaluation)
}

// publish wakes the NodeSyncs that wait for what this one has in Git.
func (r *reconciliation) publish(ev evaluation) {
	if ev.Desired.Set == nil {
		return
	}
	_, generation, began := r.memory.fetch.Last()
	for _, name := range r.registry.Remember(r.name(), r.sync.UID, ev.Desired.Set, generation, began) {
		r.Enqueue(name)
	}
}

// settle derives, from the error that has ended the phases, what the next reconcile needs to know.
func (r *reconciliation) settle(d done, err error) outcome {
	out := outcome{done: d}
	if err == nil {
		return out
	}
	if out.fault = fault.Classify(err); out.fault.Class == fault.Waiting {
		out.Wait(out.fault.Reason, err.Error())
	}
	if source.Lost(err) {
		r.memory.fetch.Forget()
	}
	return out
}
