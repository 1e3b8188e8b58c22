package main

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// claim is a node that a change or a removal is on.
type claim struct {
	Name         string `json:"name"`
	Pool         string `json:"pool"`
	Node         string `json:"node,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	Zone         string `json:"zone,omitempty"`
}

// claims are those of what lives that have one of the UIDs.
func (p *planned) claims(uids []types.UID) []claim {
	asked := make(map[types.UID]bool, len(uids))
	for _, uid := range uids {
		asked[uid] = true
	}
	return p.claimsWhere(func(c *plan.NodeClaim) bool { return asked[c.UID] })
}

// claimsOf are those that go with a NodePool.
func (p *planned) claimsOf(ref render.Ref) []claim {
	return p.claimsWhere(func(c *plan.NodeClaim) bool { return ref.Kind == render.NodePool && c.Pool == ref.Name })
}

func (p *planned) claimsWhere(asked func(*plan.NodeClaim) bool) []claim {
	var found []claim
	for i := range p.live.NodeClaims {
		c := &p.live.NodeClaims[i]
		if !asked(c) {
			continue
		}
		labels := c.Labels.Map()
		found = append(found, claim{
			Name: c.Name, Pool: c.Pool, Node: c.Node,
			InstanceType: labels[corev1.LabelInstanceTypeStable], CapacityType: labels[karpv1.CapacityTypeLabelKey], Zone: labels[corev1.LabelTopologyZone],
		})
	}
	slices.SortFunc(found, func(a, b claim) int { return cmp.Compare(a.Name, b.Name) })
	return found
}
