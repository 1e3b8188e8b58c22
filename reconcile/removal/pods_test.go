package removal

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// interrupt makes Karpenter terminate a NodeClaim because its spot instance is interrupted.
func (s *stage) interrupt(name string) {
	s.t.Helper()
	for _, claim := range s.claims() {
		if claim.Name == name {
			if err := s.client.Delete(s.t.Context(), &claim, preconditions(claim.UID, claim.ResourceVersion)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// TestDriveWaitsForPodsOfInterruptedNodes checks that a node that Karpenter terminates during a removal counts like one
// that the removal has terminated, including its pods.
func TestDriveWaitsForPodsOfInterruptedNodes(t *testing.T) {
	for name, c := range map[string]struct {
		// forgotten reports whether the daemon was restarted after the interruption was seen.
		forgotten bool
		ready     corev1.ConditionStatus
		says      string
	}{
		"a pod is Pending":           {says: "waiting for pod default/db-2 of ReplicaSet db to run before deleting the next NodeClaim"},
		"a pod is not Ready":         {ready: corev1.ConditionFalse, says: "waiting for pod default/db-2 of ReplicaSet db to be Ready before deleting the next NodeClaim"},
		"a restart in between":       {forgotten: true, says: "waiting for pod default/db-2 of ReplicaSet db to run before deleting the next NodeClaim"},
		"its pods are Ready at once": {ready: corev1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			s := pacedPool(t, pool("batch", "batch-uid", dynamic()))
			for _, name := range []string{"a", "b", "c"} {
				s.launch(name, "batch", "batch-uid")
			}
			s.runsOf("web", "web-1", "node-a", time.Now().Add(-time.Hour), corev1.ConditionTrue)
			// It became unready together with its node.
			s.runsOf("db", "db-1", "node-b", time.Now().Add(-time.Hour), corev1.ConditionFalse)
			s.owned("bare", "", "node-c")
			s.find(render.NodePool, "batch", "batch-uid")
			s.expect("recorded", "batch Pacing")
			s.expect("growth is stopped", "batch Pacing", "stop growth")
			s.expect("one is ended", "batch Draining", "delete NodeClaim/a")
			s.interrupt("b")
			// The first replacement exists before the interruption is seen.
			if c.ready == "" {
				s.runsOf("db", "db-2", "", time.Now().Add(time.Minute), corev1.ConditionFalse)
			} else {
				s.runsOf("db", "db-2", "elsewhere", time.Now().Add(time.Minute), c.ready)
			}
			s.expect("two are leaving", "batch Draining")
			if c.forgotten {
				s.evicted = nil
				s.expect("after a restart", "batch Draining")
			}
			s.evict("web-1")
			s.evict("db-1")
			s.karpenter("terminated")
			if c.says == "" {
				s.expect("all run", "batch Draining", "delete NodeClaim/c")
				return
			}
			s.expect("the third one waits for the pod", "batch Draining")
			if r := s.sync.Status.Removals[0]; r.Reason != ReasonPodsPending || r.Message != c.says {
				t.Errorf("it says %s: %s", r.Reason, r.Message)
			}
			s.evict("db-2")
			s.runsOf("db", "db-3", "elsewhere", time.Now().Add(time.Minute), corev1.ConditionTrue)
			s.expect("it runs", "batch Draining", "delete NodeClaim/c")
		})
	}
}

// TestDriveReadsThePodsOfANodeOnce checks that the pods of a node that terminates slowly are not read in each
// reconcile.
func TestDriveReadsThePodsOfANodeOnce(t *testing.T) {
	s := pacedPool(t, pool("batch", "batch-uid", dynamic()))
	for _, name := range []string{"a", "b", "c"} {
		s.launch(name, "batch", "batch-uid")
	}
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.pass()
	s.expect("one is ended", "batch Draining", "delete NodeClaim/a")
	s.interrupt("b")
	s.expect("it is seen", "batch Draining")
	if !s.evicted["uid-a"] || !s.evicted["uid-b"] || s.evicted["uid-c"] {
		t.Errorf("what is known of is %v", s.evicted)
	}
	s.karpenter("terminated")
	s.expect("the last", "batch Draining", "delete NodeClaim/c")
	if s.evicted["uid-a"] || s.evicted["uid-b"] {
		t.Errorf("what is gone is remembered: %v", s.evicted)
	}
}
