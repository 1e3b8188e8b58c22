package removal

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/render"
)

// TestSettle checks that nothing is left of a removal once the pods that it left without a node run, or wait for
// something else, even without another removal.
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
			s := pacedPool(t, pool("batch", "batch-uid", dynamic()))
			s.launch("a", "batch", "batch-uid")
			s.replica("web-a", "web", "node-a")
			s.find(render.NodePool, "batch", "batch-uid")
			s.expect("recorded", "batch Pacing")
			s.expect("growth is stopped", "batch Pacing", "stop growth")
			s.expect("its node is ended", "batch Draining", "delete NodeClaim/a")
			s.evict("web-a")
			s.replica("web-b", "web", "")
			s.karpenter("terminated")
			s.expect("no longer referenced", "batch Finalizing", "delete the object")
			s.expect("over", "batch Gone")
			s.sync.Status.Removals = nil
			if s.recorded() == nil {
				t.Fatal("nothing is recorded")
			}
			c.change(s)
			left, err := Settle(t.Context(), s.world(), Pass{Now: s.now.Add(c.after), Sync: s.sync, StallAfter: 10 * time.Minute}, func(types.UID) bool { return true })
			if err != nil || left != c.left || (s.recorded() != nil) != c.left {
				t.Errorf("left %t, recorded %v, error %v", left, s.record(), err)
			}
		})
	}
}

// TestSettleTakesWhatWasRecordedInVain checks that a record whose reconcile was killed before it wrote the status is
// dropped once the entry is in Git again. It is kept if the status contains the removal, or the object is not known to
// stay: only the record knows its instances.
func TestSettleTakesWhatWasRecordedInVain(t *testing.T) {
	for name, c := range map[string]struct {
		inStatus, stays, want bool
	}{
		"Git has it again":       {stays: true},
		"the status has it":      {inStatus: true, stays: true, want: true},
		"its object may be gone": {want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := pacedPool(t, pool("batch", "batch-uid", dynamic()))
			s.launch("a", "batch", "batch-uid")
			s.find(render.NodePool, "batch", "batch-uid")
			s.expect("recorded", "batch Pacing")
			if !c.inStatus {
				s.sync.Status.Removals = nil
			}
			left, err := Settle(t.Context(), s.world(), Pass{Now: s.now, Sync: s.sync, StallAfter: 10 * time.Minute}, func(types.UID) bool { return c.stays })
			if err != nil || left || (s.recorded() != nil) != c.want {
				t.Errorf("left %t, record %v, error %v", left, s.record(), err)
			}
		})
	}
}
