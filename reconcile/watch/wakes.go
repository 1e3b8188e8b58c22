package watch

import (
	"context"
	"fmt"
	"slices"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Wakes finds the NodeSyncs that an event enqueues.
type Wakes struct {
	// Cached is the watch cache that the NodeSyncs are read from.
	Cached client.Reader
	// Namespace is the daemon's namespace; only NodeSyncs there are reconciled.
	Namespace string
	// Launches tracks the pools whose launches fail, by their NodeClaims.
	Launches *cluster.Launches
	// ClaimEvents is notified of NodeClaims that are deleted; it may be nil.
	ClaimEvents cluster.ClaimEvents
	Interests   Interests
}

// Interests are what is known of NodeSyncs besides their objects. Its methods may be called at any time.
type Interests interface {
	// Wants reports whether the last Set of a NodeSync has an entry with this name.
	Wants(name types.NamespacedName, ref render.Ref) bool
	// Awaits reports whether a NodeSync waits for a change in the Git of others.
	Awaits(name types.NamespacedName) bool
	// Holds reports whether a NodeSync holds something because of the number of nodes.
	Holds(name types.NamespacedName) bool
}

// All enqueues every NodeSync.
func (w Wakes) All(ctx context.Context, _ client.Object) []ctrlreconcile.Request {
	return w.where(ctx, func(*v1alpha1.NodeSync) bool { return true })
}

// OnCRD enqueues every NodeSync when a CRD of Karpenter or that of Approvals changes.
func (w Wakes) OnCRD(ctx context.Context, obj client.Object) []ctrlreconcile.Request {
	if obj.GetName() == v1alpha1.ApprovalCRD || slices.Contains(allowance.FromCharts().CRDs, obj.GetName()) {
		return w.All(ctx, obj)
	}
	return nil
}

// OnApproval enqueues the NodeSync that an Approval references.
func (w Wakes) OnApproval(ctx context.Context, obj client.Object) []ctrlreconcile.Request {
	approval, ok := obj.(*v1alpha1.Approval)
	return w.where(ctx, func(sync *v1alpha1.NodeSync) bool {
		return ok && sync.Namespace == approval.Namespace && sync.Name == approval.Spec.NodeSync
	})
}

// OnDefinition enqueues the NodeSync that owns a definition, those with an entry of its name in Git, those that wait
// for another one to take an object over, and those that wait until the object that it references is unused.
func (w Wakes) OnDefinition(ctx context.Context, obj client.Object) []ctrlreconcile.Request {
	ref := render.RefTo(obj.GetObjectKind().GroupVersionKind().Kind, obj)
	named := reference(ref, obj)
	return w.where(ctx, func(sync *v1alpha1.NodeSync) bool {
		name := client.ObjectKeyFromObject(sync)
		return plan.OwnerOf(sync.Namespace, sync.Name).Owns(obj) || w.Interests.Wants(name, ref) || w.Interests.Awaits(name) ||
			w.leaves(sync, named)
	})
}

// reference returns what a definition references; the zero Ref if nothing.
func reference(ref render.Ref, obj client.Object) render.Ref {
	if definition, ok := obj.(*unstructured.Unstructured); ok {
		named, _ := render.Reference(ref, definition)
		return named
	}
	return render.Ref{}
}

// leaves reports whether an object was removed from a NodeSync's Git, or was deleted by hand while Git still contains
// it: in both cases it is gone once nothing references it any more.
func (w Wakes) leaves(sync *v1alpha1.NodeSync, ref render.Ref) bool {
	if ref == (render.Ref{}) {
		return false
	}
	ready := conditions.Get(sync, meta.ReadyCondition)
	deleted := ready != nil && ready.Reason == v1alpha1.ReasonClassTerminating && w.Interests.Wants(client.ObjectKeyFromObject(sync), ref)
	return deleted || slices.ContainsFunc(sync.Status.Removals,
		func(r v1alpha1.Removal) bool { return r.Kind == ref.Kind && r.Name == ref.Name })
}

// OnNodeClaim enqueues the NodeSyncs with open removals that concern a NodeClaim, those whose pool it has news of,
// those that watch for node drift, and those that hold something because of the number of nodes.
func (w Wakes) OnNodeClaim(ctx context.Context, obj client.Object) []ctrlreconcile.Request {
	claim, ok := obj.(*karpv1.NodeClaim)
	if !ok {
		return nil
	}
	n, news := cluster.NodeClaim(claim), w.Launches.See(claim)
	pool := render.Ref{Kind: render.NodePool, Name: n.Pool}
	return w.where(ctx, func(sync *v1alpha1.NodeSync) bool {
		name, told := client.ObjectKeyFromObject(sync), news || watchesDrift(sync)
		return removes(sync, n) || told && w.Interests.Wants(name, pool) || w.Interests.Holds(name)
	})
}

// OnEvent enqueues the NodeSyncs with the NodePool in Git for which Karpenter reports that it finds no instance type.
func (w Wakes) OnEvent(ctx context.Context, obj client.Object) []ctrlreconcile.Request {
	event, ok := obj.(*corev1.Event)
	if !ok || !w.Launches.SeeEvent(event) {
		return nil
	}
	pool := render.Ref{Kind: render.NodePool, Name: event.InvolvedObject.Name}
	return w.where(ctx, func(sync *v1alpha1.NodeSync) bool { return w.Interests.Wants(client.ObjectKeyFromObject(sync), pool) })
}

// removes reports whether an open removal of a NodeSync concerns a NodeClaim.
func removes(sync *v1alpha1.NodeSync, n plan.NodeClaim) bool {
	return slices.ContainsFunc(sync.Status.Removals, func(r v1alpha1.Removal) bool {
		return r.Kind == render.NodePool && r.Name == n.Pool || r.Kind == render.EC2NodeClass && r.Name == n.Class
	})
}

// watchesDrift reports whether a NodeSync watches for node drift.
func watchesDrift(sync *v1alpha1.NodeSync) bool {
	return sync.Status.Karpenter != nil && sync.Status.Karpenter.NodeDrift != nil
}

// where enqueues the NodeSyncs for which wake returns true. They are the cache's objects and must not be changed.
func (w Wakes) where(ctx context.Context, wake func(*v1alpha1.NodeSync) bool) []ctrlreconcile.Request {
	list := &v1alpha1.NodeSyncList{}
	if err := w.Cached.List(ctx, list, client.InNamespace(w.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		// This is the cache that the event came from.
		ctrl.LoggerFrom(ctx).Error(err, "list NodeSyncs in the cache")
		return nil
	}
	var requests []ctrlreconcile.Request
	for i := range list.Items {
		if wake(&list.Items[i]) {
			requests = append(requests, ctrlreconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// managesCharts reports whether a NodeSync has started to install Karpenter's charts.
func (w Wakes) managesCharts(ctx context.Context) (bool, error) {
	syncs := &v1alpha1.NodeSyncList{}
	if err := w.Cached.List(ctx, syncs, client.InNamespace(w.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("read the NodeSyncs: %w", err)
	}
	return slices.ContainsFunc(syncs.Items, func(sync v1alpha1.NodeSync) bool {
		return sync.Status.Karpenter != nil && sync.Status.Karpenter.Management == string(render.Managed)
	}), nil
}

// approvalType is how a watch of Approvals describes its type.
var approvalType = fmt.Sprintf("%T", &v1alpha1.Approval{})

// listenToApprovals watches Approvals while their CRD is served. A new daemon may run with the CRDs or roles of an
// older version, so no reconcile waits for this watch.
func (w *Watches) listenToApprovals(ctx context.Context) (filled bool, err error) {
	approvals := []watched{{&v1alpha1.Approval{}, w.Wakes.OnApproval, nil}}
	if w.Home.Cache != w.Nodes.Cache {
		if err := w.begin(&w.home, w.Home, []watched{w.crds()}); err != nil {
			return false, err
		}
	}
	served, err := w.approvalsServed(ctx)
	if err != nil {
		return false, err
	}
	if !served {
		w.Refusals.Forget(approvalType)
		return true, w.end(ctx, &w.approvals, w.Home, approvals)
	}
	if !w.approvals {
		if unlisted, err := w.unlisted(w.Home, &v1alpha1.Approval{}); unlisted != nil || err != nil {
			return true, err
		}
	}
	if err := w.begin(&w.approvals, w.Home, approvals); err != nil {
		return false, err
	}
	if w.refusesApprovals() {
		return true, nil // ServesApprovals reports it, and nothing waits for them
	}
	return w.Home.filled(ctx, approvals)
}

// refusesApprovals reports whether the API server rejects the watch.
func (w *Watches) refusesApprovals() bool {
	refused, _ := w.Refusals.Apart(approvalType)
	return refused != nil
}

// ServesApprovals reports whether Approvals are watched and can be read from the cache. refused is why they are not
// although they are served: the roles are those of an older version of plumbline.
func (w *Watches) ServesApprovals() (serves bool, refused error) {
	if w == nil {
		return true, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.approvals {
		refused, _ = w.Refusals.Apart(approvalType)
	}
	return w.approvals && refused == nil, refused
}

// approvalsServed reports whether the CRD of Approvals is served.
func (w *Watches) approvalsServed(ctx context.Context) (bool, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := w.Wakes.Cached.Get(ctx, client.ObjectKey{Name: v1alpha1.ApprovalCRD}, crd)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read crd %s: %w", v1alpha1.ApprovalCRD, err)
	}
	return cluster.Serves(crd, v1alpha1.GroupVersion.WithKind(v1alpha1.ApprovalKind)).Ready, nil
}
