// Package reconcile is the controller of NodeSyncs.
//
// A reconcile has five phases, each a function from values to a value: fetch returns the revision in Git, observe the
// state of the cluster, evaluate the plan, execute what was done, and conclude turns that into status, events, metrics
// and commit statuses, and returns when the next reconcile is due. phases.go calls them in order. A reconcile never
// blocks: it does what can be done now, and records what it waits for. Watches, or the earliest of its deadlines,
// trigger the next one.
package reconcile

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/runtime/controller"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// Reconciler makes a cluster's nodes match its NodeSyncs.
type Reconciler struct {
	controller.Metrics
	// Client reads NodeSyncs and what belongs to them from the watch cache and writes to the API server. The cluster
	// with their nodes has separate clients.
	Client client.Client
	// Standby writes the only thing that a replica may write without leading: a request for a reconcile.
	Standby client.Writer
	// Uncached reads from the API server.
	Uncached client.Reader
	// Labelled reads, from a separate watch cache, the objects that are labelled for values of the chart.
	Labelled client.Reader
	Events   record.EventRecorder

	// Cluster is the cluster whose nodes are managed.
	Cluster Cluster

	Source  fetch.Source
	Charts  evaluate.Store
	Reports status.Reports
	Notices status.Notices
	// Confine builds kustomizations in child processes; nil builds them in this one.
	Confine *confine.Runner

	Settings Settings
	// Meter measures reconciles; nil measures nothing.
	Meter *status.Meter
	// Points are where a test may kill the daemon; none in a release.
	Points steppoint.Points

	arrivals apply.Arrivals
	memories watch.Memories[remembered]
	// registry records what each NodeSync has in Git.
	registry    evaluate.Registry
	schemas     schema.Cache
	definitions cluster.Definitions
	watches     *watch.Watches
	waker       watch.Waker
	lanes       watch.Lanes
}

// Reconcile reconciles a NodeSync.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	sync := &v1alpha1.NodeSync{}
	if err := r.Client.Get(ctx, req.NamespacedName, sync); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			r.conclusionTools().Forget(ctx, req.NamespacedName)
			return ctrl.Result{}, r.Source.Forget(req.String())
		}
		return ctrl.Result{}, err
	}
	sync, wait, err := r.newest(ctx, sync)
	if err != nil || wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	if !sync.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(sync, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil // it is complete; only other finalizers keep it
	}
	filled, listenError := r.watches.Listen(ctx)
	repository := sync.Spec.Source.Address()
	reconcile := r.start(sync)
	if !r.lanes.Enter(repository, req.NamespacedName) {
		reconcile.leasedBudgets().revoke(ctx, &finding.Findings{})
		return ctrl.Result{RequeueAfter: watch.RetryWithoutLane}, nil
	}
	defer r.lanes.End(repository, r.Enqueue)
	ctx = confine.For(ctx, repository)
	defer func() { r.watches.Took(req, reconcile.worked()) }()
	switch mode := modeOf(sync, r.Settings, filled, listenError); mode {
	case filling:
		reconcile.prepare(ctx)
		return ctrl.Result{RequeueAfter: watch.Filling}, nil
	case answering:
		reconcile.policyStep(evaluation{}).Answer(ctx)
		return ctrl.Result{}, nil
	default:
		return reconcile.run(ctx, mode, listenError)
	}
}

// recall returns what is remembered about a NodeSync.
func (r *Reconciler) recall(name types.NamespacedName, uid types.UID) *remembered {
	m, fresh := r.memories.Recall(name, uid)
	if fresh {
		r.registry.Forget(name) // of a deleted NodeSync with the same name
	}
	return m
}

// forget drops what is remembered about a NodeSync.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.memories.Forget(name)
	r.registry.Forget(name)
	r.Reports.Forget(name)
}

// newest returns the current NodeSync, or how long to wait for a cache that lags.
func (r *Reconciler) newest(ctx context.Context, cached *v1alpha1.NodeSync) (sync *v1alpha1.NodeSync, wait time.Duration, err error) {
	name := client.ObjectKeyFromObject(cached)
	m := r.recall(name, cached.UID)
	newest, err := m.lag.Newest(ctx, cached, m.conclude.Saved, r.Uncached, r.Settings.Now())
	if newest.Restored {
		r.forget(name)
	}
	return newest.Sync, newest.Wait, err
}

// SetupWithManager registers the controller, with a maximum number of concurrent reconciles. nodes is the cluster
// behind the clients of Cluster.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, nodes ctrlcluster.Cluster, concurrent int) error {
	r.lanes.Among(concurrent)
	r.lanes.Heavy = r.Confine.Heavy
	r.waker = watch.NewWaker(mgr.Elected())
	r.watches = &watch.Watches{Refusals: r.Cluster.Refusals, Wakes: r.wakes(), Pace: &cluster.Pace{Now: r.Settings.Now}, Now: r.Settings.Now}
	return r.watches.Control(mgr, nodes, r, r.waker.Events, concurrent)
}

// wakes returns what finds the NodeSyncs that an event concerns.
func (r *Reconciler) wakes() watch.Wakes {
	return watch.Wakes{
		Cached: r.Client, Namespace: r.Settings.Namespace, Launches: r.Cluster.Launches, ClaimEvents: r.Cluster.ClaimEvents,
		Interests: &r.registry,
	}
}

// Serves reports whether NodePools and NodeClaims are watched, and can be read from the cache.
func (r *Reconciler) Serves() bool { return r.watches.Serves() }

// Wake makes NodeSyncs fetch their sources now, and returns before they have.
func (r *Reconciler) Wake(ctx context.Context, syncs []v1alpha1.NodeSync) error {
	return r.waker.Wake(ctx, syncs, &r.memories, r.Standby, r.Settings.Now())
}

// Enqueue requests a reconcile of a NodeSync, which reports what was found in the background. It never blocks: at worst
// the next reconcile comes at its regular time.
func (r *Reconciler) Enqueue(name types.NamespacedName) { r.waker.Enqueue(name) }

// fetchFor makes a NodeSync fetch again unless its last fetch started after a time.
func (r *Reconciler) fetchFor(name types.NamespacedName, at time.Time) {
	r.memories.Push(name, at)
	r.Enqueue(name)
}

// Shared returns what plans outside of reconciles share with them.
func (r *Reconciler) Shared() (*schema.Cache, *cluster.Definitions) {
	return &r.schemas, &r.definitions
}
