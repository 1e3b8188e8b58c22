package plan

import (
	"cmp"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/render"
)

// TerminateFirst is the feature gate with which Karpenter ends a node before its replacement is
// launched, where that has no place else: in a static pool at its limit, and where the reservation of
// the node is full (sigs.k8s.io/karpenter pkg/controllers/disruption/staticdrift.go and drift.go,
// 1.15.0).
const TerminateFirst = "TerminateFirstDrift"

// EndFirst says which of some nodes in reserved capacity Karpenter ends before their replacements; empty
// where there are none.
func EndFirst(nodes []string) string {
	switch len(nodes) {
	case 0:
		return ""
	case 1:
		return "reserved capacity: Karpenter ends node " + nodes[0] + " before its replacement is there, where the reservation is full (feature gate " + TerminateFirst + ")"
	}
	return "reserved capacity: Karpenter ends nodes " + finding.First(nodes) + " before their replacements are there, where the reservation is full (feature gate " + TerminateFirst + ")"
}

// Reserved are the nodes of a pool in reserved capacity that nobody has ended, by name.
func (l Live) Reserved(pool string) []string {
	var nodes []string
	for i := range l.NodeClaims {
		c := &l.NodeClaims[i]
		if c.Pool == pool && !c.Deleting && c.Labels.Map()[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeReserved {
			nodes = append(nodes, cmp.Or(c.Node, c.Name))
		}
	}
	slices.Sort(nodes)
	return nodes
}

// ReservedThatLeave are such nodes of the pools whose nodes Karpenter replaces as they leave.
func (l Live) ReservedThatLeave(removals []Candidate, policy v1alpha1.RemovalPolicy) []string {
	if policy.Strategy != "" && policy.Strategy != v1alpha1.RemovalPaced {
		return nil
	}
	var nodes []string
	for i := range removals {
		if c := &removals[i]; c.Ref.Kind == render.NodePool && !c.Orphan && !c.Last {
			nodes = append(nodes, l.Reserved(c.Ref.Name)...)
		}
	}
	slices.Sort(nodes)
	return nodes
}
