package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
)

const (
	// expiresEvery is how often ExpiredApprovals looks for Approvals, and expiresAtOnce how many it reads at a time: each may be as
	// large as the API server permits.
	expiresEvery  = 10 * time.Minute
	expiresAtOnce = 50
)

// ExpiredApprovals deletes expired Approvals while the daemon's namespace has no NodeSync. Otherwise the reconciles do. It reads past the
// watch cache, because only a reconcile starts the watch of Approvals. It is a Runnable of the manager, on the leader.
type ExpiredApprovals struct {
	// Cached reads NodeSyncs, Uncached reads Approvals, and Writer deletes these.
	Cached, Uncached client.Reader
	Writer           client.Writer
	// Namespace is that of the daemon.
	Namespace string
	// Now returns the current time.
	Now func() time.Time
}

// Start deletes them every ten minutes until the context is done. What fails is logged, and tried again.
func (e *ExpiredApprovals) Start(ctx context.Context) error {
	ticker := time.NewTicker(expiresEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := e.delete(ctx); err != nil && ctx.Err() == nil {
				ctrl.LoggerFrom(ctx).Error(err, "expired Approvals remain; retrying later")
			}
		}
	}
}

// delete deletes the expired Approvals of the namespace, if it has no NodeSync. The error is the first; those that cannot
// be deleted keep no others.
func (e *ExpiredApprovals) delete(ctx context.Context) error {
	syncs := &v1alpha1.NodeSyncList{}
	if err := e.Cached.List(ctx, syncs, client.InNamespace(e.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("read the NodeSyncs: %w", err)
	}
	if len(syncs.Items) > 0 {
		return nil
	}
	var failed error
	for from := ""; ; {
		page := &v1alpha1.ApprovalList{}
		err := e.Uncached.List(ctx, page, client.InNamespace(e.Namespace), client.Limit(expiresAtOnce), client.Continue(from))
		switch {
		case meta.IsNoMatchError(err): // the CRD is not installed
			return nil
		case err != nil:
			return fmt.Errorf("read the Approvals: %w", err)
		}
		_, err = evaluate.DeleteExpired(ctx, e.Writer, approval.Expired(page.Items, e.Now()))
		if failed = cmp.Or(failed, err); page.Continue == "" || ctx.Err() != nil {
			return failed
		}
		from = page.Continue
	}
}
