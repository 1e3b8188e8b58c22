package removal

import (
	"context"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
)

// Lent is what Karpenter may replace for the removals of a NodeSync, as long as passes look after them.
type Lent struct {
	world teardown.World
	// sync is the NodeSync as the cluster has it.
	sync *v1alpha1.NodeSync
	now  time.Time
}

// Lent is what the removals have lent before this pass.
func (s *Step) Lent() Lent { return Lent{world: s.world(), sync: s.Before, now: s.Now} }

// CallBack calls it back, where this pass, or none, goes on with the removals.
func (l Lent) CallBack(ctx context.Context, found *finding.Findings) {
	if err := teardown.CallBack(ctx, l.world, l.sync, l.now); err != nil {
		found.Warn(v1alpha1.ReasonBrakeFailed, "no removal goes on, and Karpenter may begin to replace nodes for five minutes at most: "+err.Error())
		found.WakeBy(l.now.Add(l.sync.GetRetryInterval()))
	}
}

// slow is how long a pass may take until what is lent is called back meanwhile: a Git host that does not answer, say, keeps
// it from seeing that a freeze has begun.
const slow = 15 * time.Second

// Unless calls it back once the pass takes long, unless it was ended before; ending waits for that.
func (l Lent) Unless(ctx context.Context) (ended func()) {
	if len(l.sync.Status.Removals) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-time.After(slow):
			_ = teardown.CallBack(ctx, l.world, l.sync, l.now) // the pass, or the next one, tries again
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
