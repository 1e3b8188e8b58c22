package rollout

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// WaveLeases are the disruption budgets that let Karpenter replace nodes of waves, while reconciles supervise them.
type WaveLeases struct {
	// Writer writes NodePools, and Pools reads them past the cache.
	Writer client.Writer
	Pools  client.Reader
	// StillLeader returns an error if the lease is no longer ours.
	StillLeader func(context.Context) error
	// Sync is the NodeSync as the cluster has it.
	Sync *v1alpha1.NodeSync
}

// Revoke sets the leased budgets of all waves to 0 nodes, because nothing supervises them for a while. It does not overwrite
// concurrent writes. Replacements that Karpenter has begun continue.
func (l WaveLeases) Revoke(ctx context.Context) error {
	var failures []error
	for _, e := range l.Sync.Status.PoolRollouts {
		if e.Wave == nil {
			continue
		}
		err := l.revoke(ctx, e.Pool)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func (l WaveLeases) revoke(ctx context.Context, name string) error {
	ref := render.Ref{Kind: render.NodePool, Name: name}
	pool := ref.Empty()
	if err := l.Pools.Get(ctx, ref.Key(), pool); err != nil {
		return err
	}
	budgets := plan.Revoked(pool)
	if budgets == nil || pool.GetDeletionTimestamp() != nil || !plan.OwnerOf(l.Sync.Namespace, l.Sync.Name).Owns(pool) {
		return nil
	}
	return budgetWriter{l.Writer, l.StillLeader}.write(ctx, pool, budgets, pool.GetResourceVersion(), "close the wave")
}

// budgetWriter writes the disruption budgets of NodePools as the manager of the brake, while this replica leads.
type budgetWriter struct {
	writer      client.Writer
	stillLeader func(context.Context) error
}

// write applies disruption budgets: with a resourceVersion, only to that version of the NodePool. purpose is for the error.
func (w budgetWriter) write(ctx context.Context, live *unstructured.Unstructured, budgets []any, version, purpose string) error {
	err := w.stillLeader(ctx)
	if err == nil {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": budgets}}}}
		object.SetGroupVersionKind(live.GroupVersionKind())
		object.SetName(live.GetName())
		object.SetUID(live.GetUID()) // another object of the same name is neither created nor changed
		if version != "" {
			object.SetResourceVersion(version)
		}
		err = w.writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(v1alpha1.BrakeFieldManager),
			client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("%s in NodePool/%s: %w", purpose, live.GetName(), err)
	}
	return nil
}
