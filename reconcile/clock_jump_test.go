package reconcile

import (
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// jumps are changes of the clock.
func jumps() map[string]time.Duration {
	return map[string]time.Duration{"a day forward": 24 * time.Hour, "an hour back": -time.Hour}
}

// TestTheClockJumpsAmidARemoval shows that, at each phase, nothing is deleted that EC2 still has, and the removal
// completes.
func TestTheClockJumpsAmidARemoval(t *testing.T) {
	for jump, by := range jumps() {
		for _, at := range []v1alpha1.RemovalPhase{v1alpha1.RemovalPacing, v1alpha1.RemovalDraining, v1alpha1.RemovalVerifyingCloud} {
			t.Run(jump+" while "+string(at), func(t *testing.T) {
				b := leaving(t, func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = v1alpha1.OnDeleteDrain })
				jumped := func() {
					t.Helper()
					if phase := b.read().Status.Removals[0].Phase; phase != at {
						return
					}
					b.clock.forward(by)
					b.reconcile()
					if b.livePool() == nil {
						t.Fatalf("the pool is gone, and EC2 has its instance %s", b.cloud.running[0].State)
					}
				}
				b.reconcile()
				jumped()
				b.passes("the NodeClaim is ended", func() bool { return b.liveClaim() == nil || b.liveClaim().DeletionTimestamp != nil })
				jumped()
				b.endClaim()
				b.passes("EC2 is asked", func() bool { return b.read().Status.Removals[0].Phase == v1alpha1.RemovalVerifyingCloud })
				jumped()
				b.cloud.running[0].State = "terminated"
				b.passes("the NodeSync goes", func() bool { return !b.exists() })
			})
		}
	}
}
