package teardown

import (
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/render"
)

// TestSettle: nothing is left of a removal once the pods run that it has left without a node, or
// wait for something else, though no other removal comes.
func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *stage)
		after  time.Duration
		left   bool
	}{
		"the pod waits":              {func(*stage) {}, time.Second, true},
		"the pod runs":               {func(s *stage) { s.evict("web-b"); s.replica("web-c", "web", "elsewhere") }, time.Second, false},
		"the pod waits for too long": {func(*stage) {}, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := paced(t, pool("batch", "batch-uid", dynamic()))
			s.launch("a", "batch", "batch-uid")
			s.replica("web-a", "web", "node-a")
			s.find(render.NodePool, "batch", "batch-uid")
			s.expect("recorded", "batch Pacing")
			s.expect("growth is stopped", "batch Pacing", "stop growth")
			s.expect("its node is ended", "batch Draining", "delete NodeClaim/a")
			s.evict("web-a")
			s.replica("web-b", "web", "")
			s.karpenter("terminated")
			s.expect("nothing hangs on it", "batch Finalizing", "delete the object")
			s.expect("over", "batch Gone")
			s.sync.Status.Removals = nil
			if s.recorded() == nil {
				t.Fatal("nothing is recorded")
			}
			c.change(s)
			left, err := Settle(t.Context(), s.world(), Pass{Now: s.now.Add(c.after), Sync: s.sync, StallAfter: 10 * time.Minute})
			if err != nil || left != c.left || (s.recorded() != nil) != c.left {
				t.Errorf("left %t, recorded %v, error %v", left, s.record(), err)
			}
		})
	}
}
