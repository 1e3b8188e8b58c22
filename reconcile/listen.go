package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// watches are those that begin while the controller runs. A Reconciler that no
// manager runs has none.
type watches struct {
	controller controller.Controller
	cache      cache.Cache
	reconciler *Reconciler
	pace       *observe.Pace

	mu sync.Mutex
	// karpenter says that those of Karpenter's kinds have begun, charted those of
	// what its main chart makes, labelled those of what holds its values, always that
	// the others have.
	always, charted, karpenter, labelled bool
	// wanted says that a plumbline.yaml names an object that holds values.
	wanted bool
	// kinds is what the API server's discovery lists, and missingSince when it was
	// first found not to list Karpenter's although their CRDs are Established.
	kinds        meta.RESTMapper
	missingSince time.Time
}

// watched is a kind and whom its events wake.
type watched struct {
	object client.Object
	wakes  handler.MapFunc
	when   []predicate.Predicate
}

// listening is how long the caches are given to fill before the next look.
const listening = 50 * time.Millisecond

// listen begins the watches that can begin, and says whether what has begun has
// filled its cache: to a pass over an empty one everything is gone. A watch that
// is refused never fills it, and is an error.
func (w *watches) listen(ctx context.Context) (filled bool, err error) {
	if w == nil {
		return true, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.reconciler.Refusals.Err(); err != nil {
		return false, err
	}
	if err := w.begin(&w.always, w.kubernetes()); err != nil {
		return false, err
	}
	if filled, err = w.filled(ctx, w.kubernetes()); err != nil || !filled {
		return false, err
	}
	if filled, err = w.listenToCharted(ctx); err != nil || !filled {
		return false, err
	}
	if w.wanted {
		if err := w.begin(&w.labelled, w.labelledObjects()); err != nil {
			return false, err
		}
	}
	established, err := (&cluster.View{Cached: w.reconciler.Client}).Established(ctx)
	if err != nil {
		return false, err
	}
	if !established.Ready {
		return true, w.end(ctx)
	}
	if discovered, err := w.discovered(); err != nil || !discovered {
		return false, err
	}
	if err := w.begin(&w.karpenter, w.definitions()); err != nil {
		return false, err
	}
	return w.filled(ctx, w.definitions())
}

// listenToCharted begins the watches of what the main chart makes, where it is
// plumbline that installs it: else it has no right to them.
func (w *watches) listenToCharted(ctx context.Context) (filled bool, err error) {
	managed, err := w.reconciler.managesCharts(ctx)
	if err != nil || !managed {
		return true, err
	}
	var all []watched
	for _, kind := range observe.ChartedKinds() {
		all = append(all, watched{observe.Charted(kind), w.reconciler.all, []predicate.Predicate{observe.Rewritten()}})
	}
	if err := w.begin(&w.charted, all); err != nil {
		return false, err
	}
	return w.filled(ctx, all)
}

// managesCharts says whether a NodeSync has begun to install Karpenter's charts.
func (r *Reconciler) managesCharts(ctx context.Context) (bool, error) {
	syncs := &v1alpha1.NodeSyncList{}
	if err := r.Client.List(ctx, syncs, client.InNamespace(r.Settings.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("read the NodeSyncs: %w", err)
	}
	return slices.ContainsFunc(syncs.Items, func(sync v1alpha1.NodeSync) bool {
		return sync.Status.Karpenter != nil && sync.Status.Karpenter.Management == string(render.Managed)
	}), nil
}

// kubernetes are the watches that need nothing but Kubernetes.
func (w *watches) kubernetes() []watched {
	return []watched{
		{&appsv1.Deployment{}, w.reconciler.all, nil},
		{&apiextensionsv1.CustomResourceDefinition{}, w.reconciler.allOnCRD, []predicate.Predicate{observe.CRDChanged()}},
	}
}

// labelledObjects are the watches of what values of the chart may come from. They
// begin with the first plumbline.yaml that names one: they need a right to list
// Secrets, which nobody has to give who does not use it.
func (w *watches) labelledObjects() []watched {
	return []watched{
		{&corev1.Secret{}, w.reconciler.all, nil},
		{&corev1.ConfigMap{}, w.reconciler.all, nil},
	}
}

// wantLabelled has what holds values watched from the next pass on.
func (w *watches) wantLabelled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = true
}

// hearsLabelled says whether what holds values is watched, and the cache is filled.
func (w *watches) hearsLabelled(ctx context.Context) (bool, error) {
	if w == nil {
		return true, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.labelled {
		return false, nil
	}
	return w.filled(ctx, w.labelledObjects())
}

// definitions are the watches that need Karpenter's CRDs to be served.
func (w *watches) definitions() []watched {
	var all []watched
	for _, kind := range render.Kinds() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind.GVK)
		all = append(all, watched{object, w.reconciler.concerned, []predicate.Predicate{observe.DefinitionChanged()}})
	}
	return append(all, watched{&karpv1.NodeClaim{}, w.reconciler.claimed, []predicate.Predicate{observe.NodeClaimChanged()}})
}

// begin begins watches, once.
func (w *watches) begin(begun *bool, all []watched) error {
	if *begun {
		return nil
	}
	for _, each := range all {
		if err := w.controller.Watch(source.Kind(w.cache, each.object, w.pace.Handler(each.wakes), each.when...)); err != nil {
			return fmt.Errorf("watch %T: %w", each.object, err)
		}
	}
	*begun = true
	return nil
}

// end ends the watches of Karpenter's kinds when their CRDs are served no more.
// They would fail, ever more seldom, and notice late that they are served again.
func (w *watches) end(ctx context.Context) error {
	if !w.karpenter {
		return nil
	}
	for _, each := range w.definitions() {
		if err := w.cache.RemoveInformer(ctx, each.object); err != nil {
			return fmt.Errorf("end the watch of %T: %w", each.object, err)
		}
	}
	w.karpenter = false
	return nil
}

// filled says whether the caches of watches have what was there when they began.
func (w *watches) filled(ctx context.Context, all []watched) (bool, error) {
	for _, each := range all {
		informer, err := w.cache.GetInformer(ctx, each.object, cache.BlockUntilSynced(false))
		if err != nil {
			return false, fmt.Errorf("watch %T: %w", each.object, err)
		}
		if !informer.HasSynced() {
			return false, nil
		}
	}
	return true, nil
}
