package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestADeletionEndsNotWhatCarriesItOut: if a NodeSync is deleted with its nodes, a pool is held while Karpenter's
// controller or plumbline runs on it; there are no other checks.
func TestADeletionEndsNotWhatCarriesItOut(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
	c.policy.Deleting = true
	c.policy.Hosts = []plan.Host{{NodePool: "b", Node: "n1", Workload: "Karpenter's controller", Pod: "kube-system/karpenter-1"}}
	p := c.plan(t)
	want := []string{"Remove NodePool/a", "Hold NodePool/b HostsController", "Remove NodePool/c", "Remove EC2NodeClass/default"}
	if diff := cmp.Diff(want, script(p)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	for _, r := range p.Removals {
		if says := "move it to nodes that Karpenter does not manage, or set onDelete: Orphan to keep the nodes"; r.Held && !strings.HasSuffix(r.Message, says) {
			t.Errorf("got %q", r.Message)
		}
	}
}

// TestOnlyNodesGo: if the definitions stay, the nodes of NodePools are removed without the guard, and nothing else is
// planned.
func TestOnlyNodesGo(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
	c.live.NodeClaims = claims("a", 4)
	c.policy.Deleting, c.policy.Keeps = true, true
	want := []string{"Remove NodePool/a", "Remove NodePool/b"}
	if diff := cmp.Diff(want, script(c.plan(t))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
