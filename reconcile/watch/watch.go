// Package watch decides when a NodeSync is reconciled.
//
// Watches begins the watches of a cluster that begin while the controller runs, and says which NodeSyncs their events trigger, and whether
// what is watched has filled its cache: no reconcile goes by an empty one. A Waker triggers what no watch does: a Git host reports a
// push, one reconcile triggers another. Lanes limits how many NodeSyncs of one repository are reconciled at a time. CacheLag finds out whether the watch
// cache lacks what the last reconcile wrote. Memories keeps what a reconcile leaves to the next one of its NodeSync; losing it costs
// time and nothing else.
package watch

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/render"
)

// Watches are those that begin while the controller runs. A nil one has filled its cache:
// a Reconciler that no manager runs has none.
type Watches struct {
	// Controller takes what the watches wake.
	Controller controller.Controller
	// Home is where the NodeSyncs are, and Nodes the cluster whose nodes are kept: the same, or another one.
	Home, Nodes Side
	// Refusals are the watches that the API server refuses.
	Refusals *cluster.Refusals
	// Wakes says whom events wake, and Pace how often.
	Wakes  Wakes
	Pace   *cluster.Pace
	Scheme *runtime.Scheme
	Now    func() time.Time

	mu sync.Mutex
	// karpenter reports that those of Karpenter's kinds have begun, charted those of
	// what its main chart makes, labelled those of what holds its values, approvals
	// that of Approvals, home that of its CRD in a cluster of its own, always that the others have.
	always, charted, karpenter, labelled, approvals, home bool
	// wanted reports whether a plumbline.yaml names an object that holds values.
	wanted bool
	// missingSince is when discovery was first found not to list Karpenter's kinds although
	// their CRDs are Established.
	missingSince time.Time
}

// Side is a cluster that is watched: the cache behind its watches, and what its API server's discovery lists.
type Side struct {
	Cache cache.Cache
	Kinds meta.RESTMapper
}

// watched is a kind and whom its events wake.
type watched struct {
	object client.Object
	wakes  handler.MapFunc
	when   []predicate.Predicate
}

// Filling is how long the caches are given to fill before the next look.
const Filling = 20 * time.Millisecond

// Listen begins the watches that can begin, and reports whether what has begun has
// filled its cache: to a reconcile over an empty one everything is gone. A watch that
// is refused never fills it, and is an error, but for that of Approvals.
func (w *Watches) Listen(ctx context.Context) (filled bool, err error) {
	if w == nil {
		return true, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.Refusals.Apart(approvalType); err != nil {
		return false, err
	}
	if err := w.begin(&w.always, w.Nodes, w.kubernetes()); err != nil {
		return false, err
	}
	if filled, err = w.Nodes.filled(ctx, w.kubernetes()); err != nil || !filled {
		return false, err
	}
	for _, listen := range []func(context.Context) (bool, error){w.listenToCharted, w.listenToApprovals} {
		if filled, err = listen(ctx); err != nil || !filled {
			return false, err
		}
	}
	if w.wanted {
		if err := w.begin(&w.labelled, w.Home, w.labelledObjects()); err != nil {
			return false, err
		}
	}
	return w.listenToDefinitions(ctx)
}

// listenToDefinitions begins the watches of Karpenter's kinds where their CRDs are served, and ends
// them where they no longer are.
func (w *Watches) listenToDefinitions(ctx context.Context) (filled bool, err error) {
	established, err := (&cluster.View{Cached: w.Nodes.Cache}).Established(ctx)
	if err != nil {
		return false, err
	}
	if !established.Ready {
		return true, w.end(ctx, &w.karpenter, w.Nodes, w.definitions())
	}
	if discovered, err := w.discovered(); err != nil || !discovered {
		return false, err
	}
	if err := w.begin(&w.karpenter, w.Nodes, w.definitions()); err != nil {
		return false, err
	}
	return w.Nodes.filled(ctx, w.definitions())
}

// Took notes how long a reconcile took: while events keep coming, the next one waits in proportion to that.
func (w *Watches) Took(request reconcile.Request, d time.Duration) {
	if w != nil && w.Pace != nil {
		w.Pace.Took(request, d)
	}
}

// Serves reports whether the watches of definitions have begun: Karpenter's CRDs are served then.
func (w *Watches) Serves() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.karpenter
}

// listenToCharted begins the watches of what the main chart makes, where it is
// plumbline that installs it: else it has no right to them.
func (w *Watches) listenToCharted(ctx context.Context) (filled bool, err error) {
	managed, err := w.Wakes.managesCharts(ctx)
	if err != nil || !managed {
		return true, err
	}
	var all []watched
	for _, kind := range cluster.ChartedKinds() {
		all = append(all, watched{cluster.Charted(kind), w.Wakes.All, []predicate.Predicate{cluster.Rewritten()}})
	}
	if err := w.begin(&w.charted, w.Nodes, all); err != nil {
		return false, err
	}
	return w.Nodes.filled(ctx, all)
}

// kubernetes are the watches that need nothing but Kubernetes.
func (w *Watches) kubernetes() []watched {
	return []watched{
		{&appsv1.Deployment{}, w.Wakes.All, nil},
		{&corev1.Event{}, w.Wakes.OnEvent, nil},
		w.crds(),
	}
}

// crds is the watch of CRDs.
func (w *Watches) crds() watched {
	return watched{&apiextensionsv1.CustomResourceDefinition{}, w.Wakes.OnCRD, []predicate.Predicate{cluster.CRDChanged()}}
}

// labelledObjects are the watches of what values of the chart may come from. They
// begin with the first plumbline.yaml that names one: they need a right to list
// Secrets, which nobody has to give who does not use it.
func (w *Watches) labelledObjects() []watched {
	return []watched{
		{&corev1.Secret{}, w.Wakes.All, nil},
		{&corev1.ConfigMap{}, w.Wakes.All, nil},
	}
}

// WantLabelled has what holds values watched from the next reconcile on.
func (w *Watches) WantLabelled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = true
}

// Labelled returns what the objects that hold values are read from: their watch cache, and
// the API server until that is filled. listed is to be called once they could be listed from
// there: a watch of them will not be refused then, which no reconcile would get past. It returns
// how soon the next reconcile is wanted for that.
func (w *Watches) Labelled(ctx context.Context, cached, server client.Reader) (reader client.Reader, listed func() time.Duration, err error) {
	heard, err := w.HearsLabelled(ctx)
	if err != nil || heard {
		return cached, func() time.Duration { return 0 }, err
	}
	return server, func() time.Duration {
		w.WantLabelled()
		return finding.Soon
	}, nil
}

// HearsLabelled reports whether what holds values is watched, and the cache is filled.
func (w *Watches) HearsLabelled(ctx context.Context) (bool, error) {
	if w == nil {
		return true, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.labelled {
		return false, nil
	}
	return w.Home.filled(ctx, w.labelledObjects())
}

// definitions are the watches that need Karpenter's CRDs to be served.
func (w *Watches) definitions() []watched {
	var all []watched
	for _, kind := range render.Kinds() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind.GVK)
		all = append(all, watched{object, w.Wakes.OnDefinition, []predicate.Predicate{cluster.DefinitionChanged()}})
	}
	return append(all, watched{&karpv1.NodeClaim{}, w.Wakes.OnNodeClaim, []predicate.Predicate{cluster.Tell(w.Wakes.Ends), cluster.NodeClaimChanged()}})
}

// begin begins watches, once.
func (w *Watches) begin(begun *bool, at Side, all []watched) error {
	if *begun {
		return nil
	}
	for _, each := range all {
		if err := w.Controller.Watch(source.Kind(at.Cache, each.object, w.Pace.Handler(each.wakes), each.when...)); err != nil {
			return fmt.Errorf("watch %T: %w", each.object, err)
		}
	}
	*begun = true
	return nil
}

// end ends watches that have begun, when their CRDs are served no more. They would
// fail, ever more seldom, and notice late that they are served again.
func (w *Watches) end(ctx context.Context, begun *bool, at Side, all []watched) error {
	if !*begun {
		return nil
	}
	for _, each := range all {
		if err := at.Cache.RemoveInformer(ctx, each.object); err != nil {
			return fmt.Errorf("end the watch of %T: %w", each.object, err)
		}
	}
	*begun = false
	return nil
}

// filled reports whether the caches of watches have what was there when they began.
func (s Side) filled(ctx context.Context, all []watched) (bool, error) {
	for _, each := range all {
		informer, err := s.Cache.GetInformer(ctx, each.object, cache.BlockUntilSynced(false))
		if err != nil {
			return false, fmt.Errorf("watch %T: %w", each.object, err)
		}
		if !informer.HasSynced() {
			return false, nil
		}
	}
	return true, nil
}

// DiscoveryLag is how long the API server's discovery may take to list a kind whose
// CRD is Established before it counts as a fault. It takes milliseconds on an idle
// API server.
const DiscoveryLag = 10 * time.Second

// discovered reports whether the API server's discovery lists Karpenter's kinds, which
// it does a moment after their CRDs are Established. A watch that begins earlier
// fails, and controller-runtime tries it again after ten seconds.
func (w *Watches) discovered() (bool, error) {
	if w.karpenter {
		return true, nil
	}
	for _, each := range w.definitions() {
		unlisted, err := w.unlisted(w.Nodes, each.object)
		if unlisted != nil {
			return false, w.missing(unlisted)
		}
		if err != nil {
			return false, err
		}
	}
	w.missingSince = time.Time{}
	return true, nil
}

// unlisted says why discovery does not list the kind of an object; nil if it does.
func (w *Watches) unlisted(at Side, object client.Object) (unlisted, err error) {
	gvk, err := apiutil.GVKForObject(object, w.Scheme)
	if err != nil {
		return nil, fmt.Errorf("find the kind of %T: %w", object, err)
	}
	_, err = at.Kinds.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return err, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s in the API server's discovery: %w", gvk.Kind, err)
	}
	return nil, nil
}

// missing is an error once a kind has been missing from discovery for too long.
func (w *Watches) missing(err error) error {
	now := w.Now()
	if w.missingSince.IsZero() {
		w.missingSince = now
	}
	if now.Sub(w.missingSince) < DiscoveryLag {
		return nil
	}
	return fmt.Errorf("the CRD is Established, but the API server's discovery does not list its kind: check the API server's log: %w", err)
}
