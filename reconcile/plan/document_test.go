package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
	"github.com/plumbline-dev/plumbline/render"
)

// TestADocumentNamesNodeClaims: as JSON a plan says which nodes it is on, what they are, and how many
// they are in all, each counted once.
func TestADocumentNamesNodeClaims(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("batch", "default"), pool("web", "default"))
	labels := plan.PackLabels(map[string]string{
		"node.kubernetes.io/instance-type": "m7i.large", "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "eu-west-1a",
	})
	c.live.NodeClaims = []plan.NodeClaim{
		{Name: "batch-2", UID: "2", Pool: "batch", Class: "default"},
		{Name: "batch-1", UID: "1", Pool: "batch", Class: "default", Node: "ip-10-0-0-1", Labels: labels},
		{Name: "web-1", UID: "3", Pool: "web", Class: "default"},
		{Name: "other-1", UID: "4", Pool: "other", Class: "other"},
	}
	c.policy.Karpenter = &render.Karpenter{Cluster: render.Cluster{Name: "prod-eu"}}
	p := c.plan(t, class("default", "tags: {team: a}"), pool("web", "default"))
	d := p.Document(c.live)

	one := planjson.NodeClaim{Name: "batch-1", Pool: "batch", Class: "default", Node: "ip-10-0-0-1", InstanceType: "m7i.large", CapacityType: "spot", Zone: "eu-west-1a"}
	two := planjson.NodeClaim{Name: "batch-2", Pool: "batch", Class: "default"}
	web := planjson.NodeClaim{Name: "web-1", Pool: "web", Class: "default"}
	if diff := cmp.Diff([]planjson.NodeClaim{one, two}, d.Removals[0].NodeClaims); diff != "" {
		t.Errorf("of the pool that leaves (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]planjson.NodeClaim{one, two, web}, d.Changes[0].NodeClaims); diff != "" {
		t.Errorf("of the class that changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(planjson.Totals{Nodes: 3, ClusterNodes: 4, DisruptedNodes: 3, RemovedPools: 1}, d.Totals); diff != "" {
		t.Errorf("in all (-want +got):\n%s", diff)
	}
	if len(d.NodeClaims) != 4 || d.Cluster != "prod-eu" || d.NodeSync != "plumbline-system/prod" || d.Changes[0].Kind != "EC2NodeClass" {
		t.Errorf("%+v", d)
	}
	tags := map[string]any{"team": "a"}
	if diff := cmp.Diff(tags, d.Changes[0].Spec["tags"]); diff != "" || d.Changes[0].LiveSpec["tags"] != nil || d.Changes[0].LiveSpec["role"] == nil {
		t.Errorf("before %v, after (-want +got):\n%s", d.Changes[0].LiveSpec, diff)
	}
}

// TestADocumentHasWhatLives: a commit writes the labels and the spec that it asks for, and not those that were.
func TestADocumentHasWhatLives(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("batch", "default"), pool("web", "default"))
	for _, name := range []string{"batch", "web"} {
		c.edit(t, render.Ref{Kind: render.NodePool, Name: name}, "kubectl", "critical", "metadata", "labels", "tier")
	}
	live := c.live
	live.Objects = plan.NewObjects(c.Objects())
	d := c.plan(t, class("default"), pool("web", "default", "weight: 3")).Document(live)
	if len(d.Changes) != 1 || d.Changes[0].LiveLabels["tier"] != "critical" || d.Changes[0].Labels["tier"] != "" {
		t.Errorf("changes %+v", d.Changes)
	}
	if len(d.Removals) != 1 || d.Removals[0].Labels["tier"] != "critical" || d.Removals[0].Spec["template"] == nil {
		t.Errorf("removals %+v", d.Removals)
	}
	if n := d.NodePools; len(n) != 2 || n[0].Name != "batch" || n[1].Name != "web" || n[0].Class != "default" || n[0].Labels["tier"] != "critical" {
		t.Errorf("node pools %+v", n)
	}
}
