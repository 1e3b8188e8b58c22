// Package watch decides when a NodeSync is reconciled.
//
// Watches starts the watches of a cluster while the controller runs, maps their events to the NodeSyncs to enqueue, and
// reports whether the caches are synced: no reconcile uses an empty one. A Waker enqueues what no watch does: a Git
// host reports a push, or one reconcile triggers another. Lanes limits how many NodeSyncs of one repository are
// reconciled at a time. CacheLag detects whether the watch cache is older than what the last reconcile wrote. Memories
// keeps what a reconcile leaves to the next one of its NodeSync; losing it only costs time.
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

// Watches are the watches that start while the controller runs. A nil Watches is always synced: a Reconciler without a
// manager has none.
type Watches struct {
	// Controller receives the requests of the watches.
	Controller controller.Controller
	// Home is the cluster of the NodeSyncs, and Nodes the managed cluster; they may be the same.
	Home, Nodes Side
	// Refusals are the watches that the API server rejects.
	Refusals *cluster.Refusals
	// Wakes maps events to NodeSyncs, and Pace limits how often they are enqueued.
	Wakes  Wakes
	Pace   *cluster.Pace
	Scheme *runtime.Scheme
	Now    func() time.Time

	mu sync.Mutex
	// These report which watches have started: always those that need only Kubernetes, charted those of the objects of
	// the main chart, karpenter those of Karpenter's kinds, labelled those of objects with chart values, approvals that
	// of Approvals, and home that of the CRDs in a separate home cluster.
	always, charted, karpenter, labelled, approvals, home bool
	// optional reports which watches of optional kinds have started, by the CRD of the kind.
	optional map[string]*bool
	// wanted reports whether a plumbline.yaml references an object with chart values.
	wanted bool
	// missingSince is when discovery was first found not to list Karpenter's kinds although their CRDs are Established.
	missingSince time.Time
}

// Side is a cluster that is watched: the cache behind its watches, and its API server's discovery.
type Side struct {
	Cache cache.Cache
	Kinds meta.RESTMapper
}

// watched is a kind and the NodeSyncs that its events enqueue.
type watched struct {
	object client.Object
	wakes  handler.MapFunc
	when   []predicate.Predicate
}

// Filling is how long to wait before checking again whether the caches are synced.
const Filling = 20 * time.Millisecond

// Listen starts the watches that can start, and reports whether the started ones are synced: with an empty cache, every
// object would look deleted. A watch that is rejected never syncs and is an error, except those of Approvals and of
// optional kinds: a new daemon may run with the roles of an older version.
func (w *Watches) Listen(ctx context.Context) (filled bool, err error) {
	if w == nil {
		return true, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.Refusals.Apart(mayBeRefused()...); err != nil {
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

// listenToDefinitions starts the watches of Karpenter's kinds if their CRDs are served, and stops them if they no
// longer are.
func (w *Watches) listenToDefinitions(ctx context.Context) (filled bool, err error) {
	established, err := (&cluster.View{Cached: w.Nodes.Cache}).Established(ctx)
	if err != nil {
		return false, err
	}
	if !established.Ready {
		if err := w.end(ctx, &w.karpenter, w.Nodes, w.definitions()); err != nil {
			return false, err
		}
		return w.listenToOptional(ctx)
	}
	if discovered, err := w.discovered(); err != nil || !discovered {
		return false, err
	}
	if err := w.begin(&w.karpenter, w.Nodes, w.definitions()); err != nil {
		return false, err
	}
	if filled, err := w.Nodes.filled(ctx, w.definitions()); err != nil || !filled {
		return false, err
	}
	return w.listenToOptional(ctx)
}

// listenToOptional starts the watch of each optional kind whose CRD is served, and stops those whose CRD no longer is.
func (w *Watches) listenToOptional(ctx context.Context) (filled bool, err error) {
	for _, kind := range render.Kinds() {
		if !kind.Optional() {
			continue
		}
		if filled, err = w.listenToKind(ctx, kind); err != nil || !filled {
			return false, err
		}
	}
	return true, nil
}

// listenToKind starts or stops the watch of one optional kind. A rejected watch never syncs, and nothing waits for it.
func (w *Watches) listenToKind(ctx context.Context, kind render.Kind) (filled bool, err error) {
	begun := w.optional[kind.CRD]
	if begun == nil {
		begun = new(bool)
		if w.optional == nil {
			w.optional = map[string]*bool{}
		}
		w.optional[kind.CRD] = begun
	}
	all := []watched{w.definition(kind)}
	served, err := (&cluster.View{Cached: w.Nodes.Cache}).Serves(ctx, kind)
	if err != nil {
		return false, err
	}
	if !served {
		w.Refusals.Forget(cluster.TypeOf(kind))
		return true, w.end(ctx, begun, w.Nodes, all)
	}
	if !*begun {
		if unlisted, err := w.unlisted(w.Nodes, all[0].object); unlisted != nil || err != nil {
			return true, err
		}
	}
	if err := w.begin(begun, w.Nodes, all); err != nil {
		return false, err
	}
	if w.refused(kind) {
		return true, nil
	}
	return w.Nodes.filled(ctx, all)
}

// refused reports whether the API server rejects the watch of a kind.
func (w *Watches) refused(kind render.Kind) bool { return w.Refusals.Of(kind) != nil }

// mayBeRefused returns the types of the watches that the API server may reject without an error.
func mayBeRefused() []string {
	types := []string{approvalType}
	for _, kind := range render.Kinds() {
		if kind.Optional() {
			types = append(types, cluster.TypeOf(kind))
		}
	}
	return types
}

// Took records how long a reconcile took: under a steady stream of events, the next one waits in proportion to that.
func (w *Watches) Took(request reconcile.Request, d time.Duration) {
	if w != nil && w.Pace != nil {
		w.Pace.Took(request, d)
	}
}

// Serves reports whether the watches of definitions have started, which means that Karpenter's CRDs are served.
func (w *Watches) Serves() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.karpenter
}

// listenToCharted starts the watches of the objects of the main chart, if plumbline installs it: otherwise it has no
// permission to watch them.
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

// kubernetes returns the watches that need only Kubernetes.
func (w *Watches) kubernetes() []watched {
	return []watched{
		{&appsv1.Deployment{}, w.Wakes.All, nil},
		{&corev1.Event{}, w.Wakes.OnEvent, nil},
		w.crds(),
	}
}

// crds returns the watch of CRDs.
func (w *Watches) crds() watched {
	return watched{&apiextensionsv1.CustomResourceDefinition{}, w.Wakes.OnCRD, []predicate.Predicate{cluster.CRDChanged()}}
}

// labelledObjects returns the watches of objects with chart values. They start when the first plumbline.yaml references
// one, because they need permission to list Secrets, which users who do not use them need not grant.
func (w *Watches) labelledObjects() []watched {
	return []watched{
		{&corev1.Secret{}, w.Wakes.All, nil},
		{&corev1.ConfigMap{}, w.Wakes.All, nil},
	}
}

// WantLabelled starts the watches of objects with chart values at the next reconcile.
func (w *Watches) WantLabelled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = true
}

// Labelled returns a reader for objects with chart values: their watch cache, or the API server until that is synced.
// The caller calls listed after it has listed them from there, which shows that a watch will not be rejected; a
// rejected watch would block every reconcile. listed returns how soon the next reconcile is needed.
func (w *Watches) Labelled(ctx context.Context, cached, server client.Reader) (
	reader client.Reader, listed func() time.Duration, err error,
) {
	heard, err := w.WatchesLabelled(ctx)
	if err != nil || heard {
		return cached, func() time.Duration { return 0 }, err
	}
	return server, func() time.Duration {
		w.WantLabelled()
		return finding.Soon
	}, nil
}

// WatchesLabelled reports whether objects with chart values are watched, and the cache is synced.
func (w *Watches) WatchesLabelled(ctx context.Context) (bool, error) {
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

// definition returns the watch of a kind of definitions.
func (w *Watches) definition(kind render.Kind) watched {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind.GVK)
	return watched{object, w.Wakes.OnDefinition, []predicate.Predicate{cluster.DefinitionChanged()}}
}

// definitions returns the watches that need Karpenter's CRDs to be served, without those of optional kinds.
func (w *Watches) definitions() []watched {
	var all []watched
	for _, kind := range render.Kinds() {
		if !kind.Optional() {
			all = append(all, w.definition(kind))
		}
	}
	return append(all, watched{
		&karpv1.NodeClaim{}, w.Wakes.OnNodeClaim, []predicate.Predicate{cluster.NotifyClaims(w.Wakes.ClaimEvents), cluster.NodeClaimChanged()},
	})
}

// begin starts watches, once.
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

// end stops watches that have started, when their CRDs are no longer served. They would fail with a growing backoff,
// and notice late that the CRDs are served again.
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

// filled reports whether the caches of watches are synced.
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

// DiscoveryLag is how long the API server's discovery may take to list a kind whose CRD is Established before that is
// an error. It takes milliseconds on an idle API server.
const DiscoveryLag = 10 * time.Second

// discovered reports whether the API server's discovery lists Karpenter's kinds, which happens a moment after their
// CRDs are Established. A watch that starts earlier fails, and controller-runtime retries it after ten seconds.
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

// unlisted returns why discovery does not list the kind of an object; nil if it does.
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

// missing returns an error once a kind has been missing from discovery for too long.
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
