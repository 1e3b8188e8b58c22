package teardown

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/render"
)

// takeBack is a pass in which Git has an entry again that leaves.
func (s *stage) takeBack(name string) {
	s.t.Helper()
	for i, r := range s.sync.Status.Removals {
		if r.Name != name {
			continue
		}
		if _, err := Unrecord(s.t.Context(), s.world(), Pass{Now: s.now, Sync: s.sync, Pace: s.pace}, r); err != nil {
			s.t.Fatal(err)
		}
		s.sync.Status.Removals = append(s.sync.Status.Removals[:i:i], s.sync.Status.Removals[i+1:]...)
		s.write()
		return
	}
	s.t.Fatalf("there is no removal of %s", name)
}

// says checks what the last removal waits for.
func (s *stage) says(reason, words string) {
	s.t.Helper()
	r := s.sync.Status.Removals[len(s.sync.Status.Removals)-1]
	if r.Reason != reason || !strings.Contains(r.Message, words) {
		s.t.Fatalf("it says %s: %s", r.Reason, r.Message)
	}
}

func (s *stage) settle() (left bool) {
	s.t.Helper()
	left, err := Settle(s.t.Context(), s.world(), Pass{Now: s.now, Sync: s.sync, StallAfter: 10 * time.Minute}, func(types.UID) bool { return true })
	if err != nil {
		s.t.Fatal(err)
	}
	return left
}

// twoLeave has two pools that may not grow: batch with node a and spot with b and c, each with a pod
// of the same workload. The node of batch is being ended.
func twoLeave(t *testing.T) *stage {
	t.Helper()
	stopped := map[string]any{"limits": map[string]any{"cpu": "0"}}
	s := paced(t, pool("batch", "batch-uid", stopped), pool("spot", "spot-uid", stopped))
	for name, pool := range map[string]string{"a": "batch", "b": "spot", "c": "spot"} {
		s.launch(name, pool, types.UID(pool+"-uid"))
		s.replica("web-"+name, "web", "node-"+name)
	}
	s.find(render.NodePool, "batch", "batch-uid")
	s.find(render.NodePool, "spot", "spot-uid")
	s.expect("recorded", "batch Pacing", "spot Pacing")
	s.expect("the older one goes first", "batch Draining", "spot Pacing", "delete NodeClaim/a")
	return s
}

// TestDriveWaitsForPodsThatAnotherRemovalHasNoted: whose record is gone by then.
func TestDriveWaitsForPodsThatAnotherRemovalHasNoted(t *testing.T) {
	for name, ends := range map[string]func(s *stage){
		"it is over": func(s *stage) { s.expect("it is over", "batch Gone", "spot Draining") },
		"it is taken back": func(s *stage) {
			s.takeBack("batch")
			s.expect("Git has it again", "spot Draining")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := twoLeave(t)
			s.evict("web-a")
			s.replica("web-a2", "web", "elsewhere")
			s.karpenter("terminated")
			s.expect("the turn of the other", "batch Finalizing", "spot Draining", "delete the object", "delete NodeClaim/b")
			ends(s)
			s.evict("web-b")
			s.replica("web-b2", "web", "")
			s.karpenter("terminated")
			s.expect("a pod does not run yet", "spot Draining")
			s.says(ReasonPodsPending, "web-b2")
			s.evict("web-b2")
			s.replica("web-b3", "web", "elsewhere")
			s.expect("it does", "spot Draining", "delete NodeClaim/c")
		})
	}
}

// TestDriveCountsWhatARemovalHasLeftThatWasTakenBack: no commit takes back that a NodeClaim ends, and
// that its pods need another node.
func TestDriveCountsWhatARemovalHasLeftThatWasTakenBack(t *testing.T) {
	s := twoLeave(t)
	s.takeBack("batch")
	s.expect("its NodeClaim is leaving", "spot Pacing")
	s.says(ReasonTurnPending, "NodePool/batch")
	s.evict("web-a")
	s.replica("web-a2", "web", "")
	s.karpenter("terminated")
	s.expect("its pod does not run yet", "spot Pacing")
	s.says(ReasonPodsPending, "web-a2")
	s.evict("web-a2")
	s.replica("web-a3", "web", "elsewhere")
	s.expect("it does", "spot Draining", "delete NodeClaim/b")
	if record := s.record(); len(record) != 1 {
		t.Errorf("recorded: %v", record)
	}
}

// TestWhatWasTakenBackMayLeaveAgain: what it has left then counts, and once, held or not.
func TestWhatWasTakenBackMayLeaveAgain(t *testing.T) {
	for name, holds := range map[string]map[types.UID]Hold{
		"it goes on": nil,
		"it is held": {"batch-uid": {Reason: "Held", Message: "a second pool would leave"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := twoLeave(t)
			s.pace.MaxUnavailable = intstr.FromInt32(2)
			s.takeBack("spot")
			s.takeBack("batch")
			s.holds = holds
			s.find(render.NodePool, "batch", "batch-uid")
			s.find(render.NodePool, "spot", "spot-uid")
			phase := "batch Draining"
			if holds != nil {
				phase = "batch Held"
			}
			s.pass()
			s.expect("one is leaving", phase, "spot Draining", "delete NodeClaim/b")
			s.expect("two are", phase, "spot Draining")
		})
	}
}

// TestSettleLooksAtWhatWasTakenBack: until its NodeClaim has ended, and its pod runs.
func TestSettleLooksAtWhatWasTakenBack(t *testing.T) {
	s := twoLeave(t)
	s.takeBack("spot")
	s.takeBack("batch")
	if !s.settle() || s.recorded() == nil {
		t.Fatalf("its NodeClaim ends still: recorded %v", s.record())
	}
	s.evict("web-a")
	s.replica("web-a2", "web", "")
	s.karpenter("terminated")
	if !s.settle() || s.recorded() == nil {
		t.Fatalf("its pod does not run yet: recorded %v", s.record())
	}
	s.evict("web-a2")
	s.replica("web-a3", "web", "elsewhere")
	if s.settle() || s.recorded() != nil {
		t.Fatalf("it does: recorded %v", s.record())
	}
}
