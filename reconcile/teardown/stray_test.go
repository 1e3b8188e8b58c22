package teardown

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestDriveNamesARelabelledNodeClaim: a removal that waits for the instance of a NodeClaim
// whose label was changed by hand says so, as long as that is so.
func TestDriveNamesARelabelledNodeClaim(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.launch("a", "batch", "batch-uid")
	s.launch("b", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	label := func(pool string) {
		t.Helper()
		for _, claim := range s.claims() {
			if claim.Name == "b" {
				claim.Labels[karpv1.NodePoolLabelKey] = pool
				if err := s.client.Update(t.Context(), &claim); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	label("other")
	s.expect("its nodes are ended", "batch Draining", "delete NodeClaim/a")
	s.karpenter("terminated")
	s.pass()
	s.pass()
	const stray = `NodeClaim/b has i-b, and its label karpenter.sh/nodepool was changed by hand to "other": set it to batch again, or delete the NodeClaim to end its node; `
	said := func(what string, want bool) {
		t.Helper()
		if r := s.sync.Status.Removals[0]; r.Reason != ReasonInstancesLeaving || strings.HasPrefix(r.Message, stray) != want || strings.Count(r.Message, "NodeClaim/b") > 1 {
			t.Errorf("%s: it says %s: %s", what, r.Reason, r.Message)
		}
	}
	said("EC2 shows the instance", true)
	s.silence = errors.New("throttled")
	s.pass()
	s.pass()
	said("EC2 gives no answer", true)
	s.silence = nil
	label("batch")
	s.expect("it is the pool's again", "batch Draining", "delete NodeClaim/b")
}

// TestDriveNamesNoNodeClaimOfANewPool: one of the pool that was recreated under the name bears the
// right label.
func TestDriveNamesNoNodeClaimOfANewPool(t *testing.T) {
	s := newStage(t, pool("batch", "new-uid", dynamic()))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	for _, claim := range s.claims() {
		claim.OwnerReferences[0].UID = "new-uid"
		if err := s.client.Update(t.Context(), &claim); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		s.pass()
	}
	if r := s.sync.Status.Removals[0]; r.Reason != ReasonInstancesLeaving || strings.Contains(r.Message, "changed by hand") {
		t.Errorf("it says %s: %s", r.Reason, r.Message)
	}
}

// TestDriveNamesWhatAClassWaitsFor: a NodePool that is not removed by itself comes before
// those that are, with what to do.
func TestDriveNamesWhatAClassWaitsFor(t *testing.T) {
	naming := func(name string) map[string]any {
		return map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"name": name}}}}
	}
	s := newStage(t, nodeClass("default", "class-uid"), pool("a", "a-uid", naming("default")), pool("b", "b-uid", naming("default")))
	s.unremoved = map[string]string{"NodePool/b": "its label was changed by hand: set it again"}
	s.find(render.EC2NodeClass, "default", "class-uid")
	s.pass()
	s.pass()
	if r := s.sync.Status.Removals[0]; r.Reason != ReasonReferenced || r.Message != "NodePool/b names it, and its label was changed by hand: set it again" {
		t.Errorf("it says %s: %s", r.Reason, r.Message)
	}
	s.unremoved = nil
	s.pass()
	if r := s.sync.Status.Removals[0]; r.Message != "still named by NodePool/a, NodePool/b" {
		t.Errorf("it says %s: %s", r.Reason, r.Message)
	}
}

// TestDriveNoClassStallsBeforeItsPool: while the pool that names it waits for a window, or for a person who releases it, a
// class waits, too, and it stalls when the pool does.
func TestDriveNoClassStallsBeforeItsPool(t *testing.T) {
	for reason, wait := range map[string]func(s *stage, waits bool){
		ReasonFrozen: func(s *stage, waits bool) {
			if s.frozen = ""; waits {
				s.frozen = "no node is removed or replaced before ten"
			}
		},
		ReasonNodePoolHeld: func(s *stage, waits bool) {
			if s.holds = nil; waits {
				s.holds = map[types.UID]Hold{"a-uid": {Reason: "MaxDisruptedNodes", Message: "too many"}}
			}
		},
	} {
		t.Run(reason, func(t *testing.T) {
			s := newStage(t, nodeClass("default", "class-uid"), pool("a", "a-uid", map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"name": "default"}}}}))
			s.launch("n", "a", "a-uid")
			s.find(render.NodePool, "a", "a-uid")
			s.find(render.EC2NodeClass, "default", "class-uid")
			after := func(passed time.Duration) v1alpha1.Removal {
				for range 3 {
					s.pass()
				}
				s.now = s.now.Add(passed)
				s.pass()
				return s.sync.Status.Removals[1]
			}
			wait(s, true)
			if r := after(72 * time.Hour); r.Stalled != nil || r.Reason != reason || r.Message != "still named by NodePool/a, NodeClaim/n" {
				t.Errorf("while the pool waits: %s: %s, stalled %v", r.Reason, r.Message, r.Stalled)
			}
			wait(s, false)
			s.controller = Gate{Message: "the controller does not run"}
			if r := after(0); r.Stalled != nil || r.Reason != ReasonReferenced {
				t.Errorf("after it: %s: %s, stalled %v", r.Reason, r.Message, r.Stalled)
			}
			if r := after(11 * time.Minute); r.Stalled == nil {
				t.Errorf("when the pool stands still: %s: %s", r.Reason, r.Message)
			}
		})
	}
}
