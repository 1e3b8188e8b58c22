package page

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/render"
)

// World is what pages are made of.
type World struct {
	Now       time.Time
	NodeSyncs []v1alpha1.NodeSync
	// Pools are all NodePools, and Claims the NodeClaims by the names of their pools. They are
	// only read.
	Pools  []*unstructured.Unstructured
	Claims map[string][]*karpv1.NodeClaim
	// Ended is what is recorded of a NodeSync; nil where nothing is.
	Ended func(name types.NamespacedName, uid types.UID) *recorder.Log
}

// poolsOf are the NodePools of a NodeSync.
func (w *World) poolsOf(sync *v1alpha1.NodeSync) (owned []*unstructured.Unstructured) {
	owner := plan.OwnerOf(sync.Namespace, sync.Name)
	for _, pool := range w.Pools {
		if owner.Owns(pool) {
			owned = append(owned, pool)
		}
	}
	return owned
}

// nodeSync finds one by its name; nil where there is none.
func (w *World) nodeSync(name string) *v1alpha1.NodeSync {
	for i := range w.NodeSyncs {
		if w.NodeSyncs[i].Name == name {
			return &w.NodeSyncs[i]
		}
	}
	return nil
}

// Cluster is where a World is read from.
type Cluster struct {
	// Cached is the watch cache.
	Cached    client.Reader
	Namespace string
	// Serves says whether NodePools and NodeClaims are watched.
	Serves func() bool
	Ended  func(name types.NamespacedName, uid types.UID) *recorder.Log
	Now    func() time.Time
}

// Read reads it.
func (c Cluster) Read(ctx context.Context) (*World, error) {
	syncs := &v1alpha1.NodeSyncList{}
	if err := c.Cached.List(ctx, syncs, client.InNamespace(c.Namespace)); err != nil {
		return nil, fmt.Errorf("read the NodeSyncs: %w", err)
	}
	w := &World{Now: c.Now(), NodeSyncs: syncs.Items, Claims: map[string][]*karpv1.NodeClaim{}, Ended: c.Ended}
	if !c.Serves() {
		return w, nil
	}
	kind, _ := render.KindOf(render.NodePool)
	pools := &unstructured.UnstructuredList{}
	pools.SetGroupVersionKind(kind.GVK)
	if err := c.Cached.List(ctx, pools, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read the NodePools: %w", err)
	}
	for i := range pools.Items {
		w.Pools = append(w.Pools, &pools.Items[i])
	}
	claims := &karpv1.NodeClaimList{}
	if err := c.Cached.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read the NodeClaims: %w", err)
	}
	for i := range claims.Items {
		pool := claims.Items[i].Labels[karpv1.NodePoolLabelKey]
		w.Claims[pool] = append(w.Claims[pool], &claims.Items[i])
	}
	return w, nil
}
