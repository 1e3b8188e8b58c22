package reconcile

import (
	"context"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
)

// leasedBudgets are the disruption budgets that let Karpenter replace nodes, for removals and in waves, while reconciles
// supervise them.
type leasedBudgets struct {
	removals removal.LeasedBudgets
	waves    rollout.WaveLeases
	now      time.Time
}

// leasedBudgets returns the budgets that removals and waves had before this reconcile.
func (r *reconciliation) leasedBudgets() leasedBudgets {
	return leasedBudgets{
		removals: r.removalStep(&done{}).LeasedBudgets(),
		waves: rollout.WaveLeases{
			Writer: r.Cluster.Client, Pools: r.Cluster.Uncached, StillLeader: r.Settings.StillLeader, Sync: r.before,
		},
		now: r.now,
	}
}

// revoke revokes the budgets if this reconcile, or no reconcile, supervises the removals and waves.
func (l leasedBudgets) revoke(ctx context.Context, found *finding.Findings) {
	l.removals.Revoke(ctx, found)
	if err := l.waves.Revoke(ctx); err != nil {
		found.Warn(v1alpha1.ReasonBrakeFailed,
			"waves are paused, but Karpenter may still start to replace nodes for up to two minutes: "+err.Error())
		found.WakeBy(l.now.Add(l.waves.Sync.GetRetryInterval()))
	}
}

// revokeAfter is how long a reconcile may take before the budgets are revoked: for example, while it waits for a Git
// host that does not respond, it cannot see that a freeze has started, or that workloads fail on new nodes.
const revokeAfter = 15 * time.Second

// unless revokes the budgets once the reconcile takes too long, unless ended is called first; ended waits for a
// revocation in progress.
func (l leasedBudgets) unless(ctx context.Context) (ended func()) {
	if status := l.waves.Sync.Status; len(status.Removals) == 0 && len(status.PoolRollouts) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		select {
		case <-ctx.Done():
		case <-time.After(revokeAfter):
			l.revoke(ctx, &finding.Findings{}) // the reconcile, or the next one, retries
		}
	}()
	return func() {
		cancel()
		<-finished
	}
}
