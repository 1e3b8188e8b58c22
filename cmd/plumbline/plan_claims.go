package main

import (
	"cmp"
	"fmt"
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
	if p.byUID == nil {
		p.byUID = make(map[types.UID]*plan.NodeClaim, len(p.live.NodeClaims))
		for i := range p.live.NodeClaims {
			p.byUID[p.live.NodeClaims[i].UID] = &p.live.NodeClaims[i]
		}
	}
	var found []claim
	for _, uid := range uids {
		if c := p.byUID[uid]; c != nil {
			found = append(found, claimOf(c))
		}
	}
	return byName(found)
}

// claimsOf are those that go with a NodePool.
func (p *planned) claimsOf(ref render.Ref) []claim {
	var found []claim
	for i := range p.live.NodeClaims {
		if c := &p.live.NodeClaims[i]; ref.Kind == render.NodePool && c.Pool == ref.Name {
			found = append(found, claimOf(c))
		}
	}
	return byName(found)
}

func claimOf(c *plan.NodeClaim) claim {
	labels := c.Labels.Map()
	return claim{
		Name: c.Name, Pool: c.Pool, Node: c.Node,
		InstanceType: labels[corev1.LabelInstanceTypeStable], CapacityType: labels[karpv1.CapacityTypeLabelKey], Zone: labels[corev1.LabelTopologyZone],
	}
}

func byName(found []claim) []claim {
	slices.SortFunc(found, func(a, b claim) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// unknown says of which changes it cannot be told which nodes they are on, and why.
func (r planReport) unknown() []string {
	var found []string
	for _, c := range r.Changes {
		if c.Unavailable != "" {
			found = append(found, fmt.Sprintf("%s: which nodes is unavailable: %s", c.Object, c.Unavailable))
		}
	}
	return found
}
