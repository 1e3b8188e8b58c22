package reconcile

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/runtime/controller"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/steppoint"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/reconcile/wake"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// Reconciler makes a cluster's nodes what NodeSyncs say.
type Reconciler struct {
	controller.Metrics
	// Client reads from the watch cache and writes to the API server.
	Client client.Client
	// Standby writes what a replica may write that does not lead: that a pass is
	// wanted, and nothing else.
	Standby client.Writer
	// Uncached reads from the API server itself.
	Uncached client.Reader
	// Labelled reads, out of their watch cache, the Secrets and ConfigMaps that are
	// labelled for values of the chart.
	Labelled client.Reader
	Events   record.EventRecorder
	// Refusals are the watches behind Client that the API server refuses.
	Refusals *observe.Refusals
	// Values are what definitions in Git share with those in the cache; nil shares
	// nothing.
	Values *render.Values
	// Launches are the pools that get no nodes, as far as NodeClaims tell.
	Launches *observe.Launches

	Source  fetch.Source
	Charts  desired.Store
	Install install.Helm
	Reports conclude.Reports
	// Logs reads the end of a container's log. Nil where none can be read.
	Logs upgrade.Logs
	// Confine builds kustomizations in child processes, one at a time for each
	// repository; nil builds them in this one.
	Confine *confine.Runner
	// DialCloud makes the client of a region. It makes no request.
	DialCloud func(ctx context.Context, region string) (account.Cloud, error)

	Settings Settings
	// Meter measures what passes do; nil measures nothing.
	Meter *conclude.Meter
	// Points are where a test may kill the daemon; none in a release.
	Points steppoint.Points

	arrivals apply.Arrivals
	memories memories
	schemas  schema.Cache
	clouds   account.Clouds
	watches  *watch.Watches
	waker    wake.Waker
	lanes    wake.Lanes
}

// Settings are the daemon's own, the same for all NodeSyncs.
type Settings struct {
	// Namespace is the daemon's; NodeSyncs and their Secrets live there.
	Namespace string
	// Pod is the daemon's own, and Node the one that it runs on; both empty outside
	// a cluster.
	Pod, Node string
	// CloudInterval is the least time between two questions to EC2.
	CloudInterval time.Duration
	// CertificateAuthority is the bundle, in PEM, that the API server's certificate is
	// checked against.
	CertificateAuthority []byte
	// Grants say whether a Secret has to name the hosts that it is for.
	Grants grant.Policy
	// Now tells the time.
	Now func() time.Time
	// StillLeader returns an error when the lease is no longer ours.
	StillLeader func(context.Context) error
}

// Reconcile runs one pass over one NodeSync.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	sync := &v1alpha1.NodeSync{}
	if err := r.Client.Get(ctx, req.NamespacedName, sync); err != nil {
		if apierrors.IsNotFound(err) {
			r.memories.forget(req.NamespacedName)
			r.Reports.Forget(req.NamespacedName)
			r.voice().Forget(ctx, req.NamespacedName)
			return ctrl.Result{}, r.Source.Forget(req.String())
		}
		return ctrl.Result{}, err
	}
	sync, wait, err := r.newest(ctx, sync)
	if err != nil || wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	if !sync.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(sync, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil // concluded; what keeps it is not ours
	}
	filled, unheard := r.watches.Listen(ctx)
	if !filled && unheard == nil {
		return ctrl.Result{RequeueAfter: watch.Filling}, nil
	}
	repository := sync.Spec.Source.Git.URL
	if !r.lanes.Enter(repository, req.NamespacedName) {
		return ctrl.Result{RequeueAfter: wake.Crowded}, nil
	}
	defer r.endLane(repository)
	ctx = confine.For(ctx, repository)
	p := r.begin(sync)
	defer func() { result, err = p.conclude(ctx) }()

	switch {
	case sync.Namespace != r.Settings.Namespace:
		p.notWatched()
	case unheard != nil:
		p.WakeBy(p.now.Add(p.retryInterval())) // no watch will
		p.run(ctx, step{stepListen, func(context.Context) error { return unheard }})
	case !sync.DeletionTimestamp.IsZero():
		p.run(ctx, p.deletion()...)
	case !controllerutil.ContainsFinalizer(sync, v1alpha1.Finalizer):
		p.run(ctx, step{stepAddFinalizer, p.addFinalizer})
	case sync.Spec.Suspend:
		p.Suspended = true
	default:
		p.run(ctx, p.attempt()...)
	}
	return result, err
}
