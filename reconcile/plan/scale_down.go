package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
)

// Deprovision is what Karpenter compares of a node to choose which nodes of a static NodePool it terminates when its
// replicas are lowered (getDeprovisioningCandidates in sigs.k8s.io/karpenter
// pkg/controllers/static/deprovisioning/controller.go, 1.8.2 to 1.15.0).
type Deprovision struct {
	// Rank decides first: Karpenter terminates all nodes of one rank before the first of the next.
	Rank DeprovisionRank
	// Now is what it costs to disrupt the node, and Later what it costs an hour later: the cost decreases with the time
	// until the node expires. They decide between nodes with pods of the same rank.
	Now, Later DisruptionCost
}

// DeprovisionRank is the order in which Karpenter terminates nodes.
type DeprovisionRank int

// The ranks, in the order of Karpenter. Within the first two, it takes the nodes in no particular order.
const (
	// NotLaunched: the NodeClaim has no instance yet.
	NotLaunched DeprovisionRank = iota
	// WithoutPods: at most pods of DaemonSets run there, and none has an active karpenter.sh/do-not-disrupt.
	WithoutPods
	// WithPods: other pods run there, and none has an active karpenter.sh/do-not-disrupt.
	WithPods
	// WithProtectedPods: a pod has an active karpenter.sh/do-not-disrupt.
	WithProtectedPods
)

// DisruptionCost is the range of what it costs to disrupt a node. The two values differ if the cost depends on a
// setting of Karpenter that is not read.
type DisruptionCost struct{ Low, High float64 }

// before reports whether Karpenter certainly terminates a node before another one. A node that is cheaper now and an
// hour later is so at any time in between.
func (d Deprovision) before(other Deprovision) bool {
	if d.Rank != other.Rank || d.Rank < WithPods {
		return d.Rank < other.Rank
	}
	return d.Now.High < other.Now.Low && d.Later.High < other.Later.Low
}

// scaleDown is which nodes of a static pool Karpenter terminates because of fewer replicas.
type scaleDown struct {
	// nodes is how many.
	nodes int
	// certain are those that it terminates in any case, and possible are those among which it chooses the others, by
	// name. Both are nil if nothing is known about the nodes.
	certain, possible []*NodeClaim
}

// scaleDownOf returns which nodes Karpenter terminates if a change lowers the replicas of a static pool. loads are what
// was read about the nodes; if it is missing for one of them, it is unknown which nodes Karpenter chooses. So it is
// while Karpenter replaces one of them, because it does not count that one (NodePoolState in
// sigs.k8s.io/karpenter pkg/controllers/state/statenodepool.go, 1.15.0).
func scaleDownOf(before, after *karpv1.NodePool, claims []*NodeClaim, loads map[types.UID]Load) scaleDown {
	found := scaleDown{nodes: scaledDown(before, after, claims)}
	if found.nodes == 0 {
		return found
	}
	running := notTerminating(claims)
	slices.SortFunc(running, func(a, b *NodeClaim) int { return cmp.Compare(nodeName(a), nodeName(b)) })
	if found.nodes == len(running) {
		found.certain = running
		return found
	}
	choices := make([]Deprovision, len(running))
	for i, c := range running {
		load, read := loads[c.UID]
		if !read || load.Deprovision == nil || c.Disrupted {
			return found
		}
		choices[i] = *load.Deprovision
	}
	for i, c := range running {
		earlier, notLater := 0, 0
		for j := range running {
			switch {
			case i == j:
			case choices[j].before(choices[i]):
				earlier, notLater = earlier+1, notLater+1
			case !choices[i].before(choices[j]):
				notLater++
			}
		}
		switch {
		case notLater < found.nodes:
			found.certain = append(found.certain, c)
		case earlier < found.nodes:
			found.possible = append(found.possible, c)
		}
	}
	return found
}

// words names the nodes.
func (s scaleDown) words() string {
	words := fmt.Sprintf("Karpenter terminates %s at once, regardless of disruption budgets", english.Plural(s.nodes, "node", ""))
	if len(s.certain)+len(s.possible) == 0 {
		return words + "; which ones depends on their pods"
	}
	words += ": " + nodeNames(s.certain)
	if len(s.possible) == 0 {
		return words
	}
	if len(s.certain) > 0 {
		words += ", and "
	}
	return words + fmt.Sprintf("%d of up to %d nodes between which its choice is not predictable: %s",
		s.nodes-len(s.certain), len(s.possible), nodeNames(s.possible))
}

// nodeNames lists the first nodes, and counts the others.
func nodeNames(claims []*NodeClaim) string {
	names := make([]string, 0, len(claims))
	for _, c := range claims {
		names = append(names, nodeName(c))
	}
	return shortlist.Join(names, 2*Named, ", ")
}

// nodeName returns the name of the Node of a NodeClaim, or its own until it has a Node.
func nodeName(c *NodeClaim) string { return cmp.Or(c.Node, c.Name) }

// ScalesDown returns the NodeClaims that Karpenter terminates because the Change lowers the replicas of a static
// NodePool, and those among which it chooses the others. Both are empty if nothing is known about the nodes.
func (c *Change) ScalesDown() (certain, possible []types.UID) { return c.scaledDown, c.mayScaleDown }
