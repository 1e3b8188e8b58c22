package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/types"
)

// ReasonMaxDisruptedNodesPerPool is the reason of what would disrupt more nodes of one NodePool than the
// guard allows.
const ReasonMaxDisruptedNodesPerPool = "MaxDisruptedNodesPerPool"

// beyond is a NodePool more of whose nodes would be disrupted than its limit allows.
type beyond struct {
	pool string
	// nodes would be disrupted, already of them end without it; limit is allowed of the nodes that there are.
	nodes, already, limit int
	of                    percentOf
}

// weighPools holds of what came with one revision each object that would disrupt nodes of a NodePool
// of which more than guard.maxDisruptedNodesPerPool allows would be, with those that end already. It
// returns the others: they go ahead.
func (m *maker) weighPools(group []share, already disruption) []share {
	if m.policy.Guard.MaxDisruptedNodesPerPool == nil {
		return group
	}
	pools := m.poolOfEach()
	found := m.poolsBeyond(group, already, pools)
	if len(found) == 0 {
		return group
	}
	var rest, over []share
	for _, s := range group {
		if slices.ContainsFunc(found, func(b beyond) bool { return s.disrupts(b.pool, pools) }) {
			over = append(over, s)
		} else {
			rest = append(rest, s)
		}
	}
	for _, s := range over {
		s.hold(ReasonMaxDisruptedNodesPerPool, m.tooManyOf(s, over, found, pools, already.recent))
	}
	return rest
}

// poolsBeyond are the NodePools of which a group would disrupt more nodes than it may, by name.
func (m *maker) poolsBeyond(group []share, already disruption, pools map[types.UID]string) []beyond {
	limit := m.policy.Guard.MaxDisruptedNodesPerPool
	before, after := already.byPool(pools), already.with(group).byPool(pools)
	var found []beyond
	for pool, nodes := range after {
		of := m.nodesOfPoolFor(pool, group)
		b := beyond{pool: pool, limit: atMost(limit, of.of), of: of}
		b.nodes, b.already = m.countPool(pool, nodes, b.limit), m.countPool(pool, before[pool], b.limit)
		if b.nodes > b.limit && slices.ContainsFunc(group, func(s share) bool { return s.disrupts(pool, pools) }) {
			found = append(found, b)
		}
	}
	slices.SortFunc(found, func(a, b beyond) int { return cmp.Compare(a.pool, b.pool) })
	return found
}

// tooManyOf says of an object that is held what releases it: first of the first of its pools, and then of the others.
func (m *maker) tooManyOf(s share, over []share, found []beyond, pools map[types.UID]string, recent bool) string {
	concerns := func(b beyond) func(share) bool { return func(s share) bool { return s.disrupts(b.pool, pools) } }
	mine := slices.DeleteFunc(slices.Clone(found), func(b beyond) bool { return !concerns(b)(s) })
	first := mine[0]
	most := slices.MaxFunc(found, func(a, b beyond) int { return cmp.Compare(a.nodes, b.nodes) }).nodes
	mineOver := slices.DeleteFunc(slices.Clone(over), func(s share) bool { return !concerns(first)(s) })
	message := fmt.Sprintf("%s of NodePool/%s would be disrupted, and guard.maxDisruptedNodesPerPool allows %d: set it to %d (it is %s%s), or change less in one commit: %s",
		english.Plural(first.nodes, "node", ""), first.pool, first.limit, most, shareOf(m.policy.Guard.MaxDisruptedNodesPerPool, first.of),
		disruptedAlready(first.already, recent)+m.inTotal(mineOver, first.limit), m.namesOf(mineOver, first.limit))
	if len(mine) == 1 {
		return message
	}
	var others []string
	for _, b := range mine[1:] {
		others = append(others, fmt.Sprintf("%d of NodePool/%s (it allows %d)", b.nodes, b.pool, b.limit))
	}
	return message + "; likewise " + someOf(others)
}

// poolOfEach is the NodePool of each NodeClaim.
func (m *maker) poolOfEach() map[types.UID]string {
	pools := make(map[types.UID]string, len(m.live.NodeClaims))
	for i := range m.live.NodeClaims {
		pools[m.live.NodeClaims[i].UID] = m.live.NodeClaims[i].Pool
	}
	return pools
}

// disrupts says whether nodes of a NodePool are among those of the share.
func (s share) disrupts(pool string, pools map[types.UID]string) bool {
	of := func(uid types.UID) bool { return pools[uid] == pool }
	return s.more > 0 && s.ref.Name == pool || slices.ContainsFunc(s.claims, of) || slices.ContainsFunc(s.terminated, of)
}
