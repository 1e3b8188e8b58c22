package conclude

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestARescueIsReported in a condition, with an event as it begins, and in the commit status; a pass without
// a Set changes nothing of it.
func TestARescueIsReported(t *testing.T) {
	pool := func(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }
	rescue := render.Rescue{
		Class: render.Ref{Kind: render.EC2NodeClass, Name: "default"}, By: render.Ref{Kind: render.EC2NodeClass, Name: "default-rescued"},
		Pools: []render.Ref{pool("a"), pool("b")}, Origins: []render.Origin{{File: "class.yaml", Line: 1}, {File: "a.yaml", Line: 1}, {File: "b.yaml", Line: 1}},
	}
	rescued := &render.Set{Rescues: []render.Rescue{rescue}}
	sync := &v1alpha1.NodeSync{}
	for i, c := range []struct {
		set       *render.Set
		condition bool
		event     string
		status    string
	}{
		{set: &render.Set{}, status: "applied, Ready, no removal open, each node matches"},
		{set: rescued, condition: true, event: "NodeClassDeleted", status: "applied; EC2NodeClass/default was deleted: have Git name default-rescued for NodePool/a and 1 more"},
		{set: rescued, condition: true, status: "applied; EC2NodeClass/default was deleted: have Git name default-rescued for NodePool/a and 1 more"},
		{condition: true, status: "applied, Ready, no removal open, each node matches"},
		{set: &render.Set{}, status: "applied, Ready, no removal open, each node matches"},
	} {
		s := &Step{Sync: sync, Before: sync.DeepCopy(), Set: c.set}
		s.setNodeClassRescued()
		event := ""
		for _, n := range s.Notes {
			event += n.Reason
		}
		found := conditions.Get(sync, v1alpha1.NodeClassRescuedCondition)
		if (found != nil) != c.condition || event != c.event {
			t.Errorf("look %d: condition %v, event %q", i+1, found, event)
		}
		if found != nil && !strings.Contains(found.Message, "rename the class to default-rescued (class.yaml:1)") {
			t.Errorf("look %d: %s", i+1, found.Message)
		}
		if v := s.doneVerdict(); v.CommitText() != c.status || v.Class != Done {
			t.Errorf("look %d: %d, %s", i+1, v.Class, v.CommitText())
		}
	}
}

// TestOrphansAreReported as long as they have nodes.
func TestOrphansAreReported(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	for i, c := range []struct {
		planned  bool
		orphaned []plan.OrphanedPool
		nodes    int32
		says     string
		event    string
	}{
		{planned: true},
		{planned: true, orphaned: []plan.OrphanedPool{{Name: "a", Nodes: 2}}, nodes: 2, event: "Orphaned", says: "NodePool/a was left to itself with nodes, and no NodeSync manages it: put it back into Git, or delete it with kubectl"},
		{planned: true, orphaned: []plan.OrphanedPool{{Name: "a", Nodes: 3}}, nodes: 3, says: "NodePool/a was left to itself"},
		{nodes: 3, says: "NodePool/a was left to itself"},
		{planned: true, orphaned: []plan.OrphanedPool{{Name: "a", Nodes: 1}, {Name: "b", Nodes: 1}}, nodes: 2, event: "Orphaned", says: "NodePool/a, NodePool/b were left to themselves with nodes, and no NodeSync manages them"},
		{planned: true},
	} {
		s := &Step{Sync: sync, Before: sync.DeepCopy(), Found: Found{Planned: c.planned, Orphaned: c.orphaned}}
		s.setOrphaned()
		event := ""
		for _, n := range s.Notes {
			event += n.Reason
		}
		message := conditions.GetMessage(sync, v1alpha1.OrphanedCondition)
		if sync.Status.OrphanedNodes != c.nodes || event != c.event || !strings.Contains(message, c.says) || c.says == "" && message != "" {
			t.Errorf("look %d: %d nodes, event %q: %s", i+1, sync.Status.OrphanedNodes, event, message)
		}
	}
}
