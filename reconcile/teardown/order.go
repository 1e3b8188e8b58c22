package teardown

import (
	"slices"
)

// looksAtOnce is among how many NodeClaims of a pool a pass looks for nodes without pods, with one LIST
// for each.
const looksAtOnce = 50

// next are the NodeClaims whose turn it is, those first whose end moves no pod. Of a static pool it may be
// any: Karpenter chooses, and takes empty nodes first as well (resolvedDeprovisioningCandidates in
// sigs.k8s.io/karpenter pkg/controllers/static/deprovisioning/controller.go).
func (o Observation) next(left []Claim) []Claim {
	sorted := o.emptyFirst(left)
	if o.karpenterChooses() {
		return sorted[:min(endsAtOnce, len(sorted))]
	}
	return sorted[:min(o.Turn.Ends, len(sorted))]
}

// looked are the NodeClaims whose pods are read before: where not all of them end, others than those whose
// turn it is may have no pods.
func (o Observation) looked(left []Claim) []Claim {
	next := o.next(left)
	if o.karpenterChooses() || len(next) == 0 || len(next) == len(left) || next[len(next)-1].Node == "" {
		return next
	}
	return o.emptyFirst(left)[:min(len(left), max(looksAtOnce, len(next)))]
}

func (o Observation) karpenterChooses() bool { return o.alive() && o.Static && o.Replicas > 0 }

// emptyFirst sorts NodeClaims: those without a node have no pods, and of the others those that are known
// to have none which is evicted come first.
func (o Observation) emptyFirst(claims []Claim) []Claim {
	rank := func(c Claim) int {
		switch {
		case c.Node == "":
			return 0
		case o.Pods != nil && o.Pods.Empty[c.Node]:
			return 1
		}
		return 2
	}
	sorted := slices.Clone(claims)
	slices.SortStableFunc(sorted, func(a, b Claim) int { return rank(a) - rank(b) })
	return sorted
}

// evictedFrom are the workloads, as far as the record lacks them, whose pods the end of NodeClaims evicts.
func (o Observation) evictedFrom(claims []Claim) []Workload {
	if o.Pods == nil || !o.Turn.AwaitPods {
		return nil
	}
	nodes := nodesOf(claims)
	return slices.DeleteFunc(slices.Clone(o.Pods.Workloads), func(w Workload) bool {
		on := o.Pods.On[w.UID]
		return len(on) > 0 && !slices.ContainsFunc(on, func(node string) bool { return slices.Contains(nodes, node) })
	})
}
