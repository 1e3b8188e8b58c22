package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAPlanNamesNodeClaims: as JSON a plan says which nodes it is on, and what they are.
func TestAPlanNamesNodeClaims(t *testing.T) {
	labels := plan.PackLabels(map[string]string{
		"node.kubernetes.io/instance-type": "m7i.large", "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "eu-west-1a",
	})
	p := &planned{
		Plan: &plan.Plan{Removals: []plan.Candidate{
			{Ref: render.Ref{Kind: render.NodePool, Name: "batch"}, Nodes: 2},
			{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "batch"}},
		}},
		live: plan.Live{NodeClaims: []plan.NodeClaim{
			{Name: "batch-2", UID: "2", Pool: "batch"},
			{Name: "batch-1", UID: "1", Pool: "batch", Node: "ip-10-0-0-1", Labels: labels},
			{Name: "web-1", UID: "3", Pool: "web"},
		}},
	}
	one := claim{Name: "batch-1", Pool: "batch", Node: "ip-10-0-0-1", InstanceType: "m7i.large", CapacityType: "spot", Zone: "eu-west-1a"}
	report := newPlanReport(p)
	if diff := cmp.Diff([]claim{one, {Name: "batch-2", Pool: "batch"}}, report.Removals[0].NodeClaims); diff != "" {
		t.Errorf("of the pool (-want +got):\n%s", diff)
	}
	if of := report.Removals[1].NodeClaims; of != nil {
		t.Errorf("of a class, which ends none: %v", of)
	}
	if diff := cmp.Diff([]claim{one, {Name: "web-1", Pool: "web"}}, p.claims([]types.UID{"3", "1", "gone"})); diff != "" {
		t.Errorf("by UID (-want +got):\n%s", diff)
	}
}
