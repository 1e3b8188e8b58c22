package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestReservedThatLeave: those of pools whose nodes Karpenter replaces as they leave.
func TestReservedThatLeave(t *testing.T) {
	claim := func(name, pool, capacity string, deleting bool) plan.NodeClaim {
		return plan.NodeClaim{Name: name, Node: "node-" + name, Pool: pool, Deleting: deleting, Labels: plan.PackLabels(map[string]string{karpv1.CapacityTypeLabelKey: capacity})}
	}
	live := plan.Live{NodeClaims: []plan.NodeClaim{
		claim("c", "general", karpv1.CapacityTypeReserved, false), claim("a", "general", karpv1.CapacityTypeReserved, false),
		claim("b", "general", karpv1.CapacityTypeReserved, true), claim("d", "general", karpv1.CapacityTypeSpot, false),
		claim("e", "batch", karpv1.CapacityTypeReserved, false),
	}}
	leaves := plan.Candidate{Ref: render.Ref{Kind: render.NodePool, Name: "general"}}
	orphan, last := leaves, leaves
	orphan.Orphan, last.Last = true, true
	for name, c := range map[string]struct {
		removal  plan.Candidate
		strategy v1alpha1.RemovalStrategy
		want     []string
	}{
		"by default":                    {removal: leaves, want: []string{"node-a", "node-c"}},
		"paced":                         {removal: leaves, strategy: v1alpha1.RemovalPaced, want: []string{"node-a", "node-c"}},
		"without replacements":          {removal: leaves, strategy: v1alpha1.RemovalAtOnce},
		"left to itself":                {removal: orphan},
		"nothing is there to take them": {removal: last},
		"an EC2NodeClass":               {removal: plan.Candidate{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "general"}}},
	} {
		if diff := cmp.Diff(c.want, live.ReservedThatLeave([]plan.Candidate{c.removal}, v1alpha1.RemovalPolicy{Strategy: c.strategy})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for want, nodes := range map[string][]string{
		"": nil,
		"reserved capacity: Karpenter ends node a before its replacement is there, where the reservation is full (feature gate TerminateFirstDrift)":                       {"a"},
		"reserved capacity: Karpenter ends nodes a, b, c and others before their replacements are there, where the reservation is full (feature gate TerminateFirstDrift)": {"a", "b", "c", "d"},
	} {
		if got := plan.EndFirst(nodes); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
