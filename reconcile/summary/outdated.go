package summary

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// OutdatedNode is a node that Karpenter has found outdated.
type OutdatedNode struct {
	NodeClaim string      `json:"nodeClaim"`
	Node      string      `json:"node,omitempty"`
	Pool      string      `json:"pool"`
	Reason    string      `json:"reason"`
	Since     metav1.Time `json:"since"`
	Draining  bool        `json:"draining,omitempty"`
}

// State is what becomes of it.
func (n OutdatedNode) State() string {
	if n.Draining {
		return "draining"
	}
	return "waits to be replaced"
}

// OutdatedNodes are those of the pools that Karpenter has found outdated, by pool and name.
func OutdatedNodes(pools []*unstructured.Unstructured, claims map[string][]*karpv1.NodeClaim) []OutdatedNode {
	outdated := []OutdatedNode{}
	for _, pool := range pools {
		for _, claim := range claims[pool.GetName()] {
			for _, c := range claim.Status.Conditions {
				if c.Type == karpv1.ConditionTypeDrifted && c.Status == metav1.ConditionTrue {
					outdated = append(outdated, OutdatedNode{
						NodeClaim: claim.Name, Node: claim.Status.NodeName, Pool: pool.GetName(), Reason: c.Reason,
						Since: c.LastTransitionTime, Draining: claim.DeletionTimestamp != nil,
					})
				}
			}
		}
	}
	slices.SortFunc(outdated, func(a, b OutdatedNode) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.NodeClaim, b.NodeClaim))
	})
	return outdated
}
