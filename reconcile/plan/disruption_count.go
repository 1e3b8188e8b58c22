package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// poolNodes are the disrupted nodes of one NodePool.
type poolNodes struct{ drained, replaced int }

// byPool counts the nodes by their NodePool. A drained node does not count as replaced as well.
func (d disruption) byPool(pools map[types.UID]string) map[string]poolNodes {
	found := map[string]poolNodes{}
	count := func(pool string, drained, replaced int) {
		n := found[pool]
		found[pool] = poolNodes{n.drained + drained, n.replaced + replaced}
	}
	for uid := range d.drained {
		count(pools[uid], 1, 0)
	}
	for uid := range d.replaced {
		if !d.drained[uid] {
			count(pools[uid], 0, 1)
		}
	}
	for pool, more := range d.moreDrained {
		count(pool, more, 0)
	}
	for pool, more := range d.moreReplaced {
		count(pool, 0, max(0, more-found[pool].replaced)) // they are among those that have already drifted
	}
	return found
}

// countAll returns how many nodes count for a limit.
func (m *maker) countAll(d disruption, limit int) int {
	n := 0
	for pool, nodes := range d.byPool(m.poolOfEach()) {
		n += m.countPool(pool, nodes, limit)
	}
	return n
}

// countPool returns how many nodes of a NodePool count for a limit. Drained nodes count in total. Replaced nodes count
// by how many may be replaced at one time, if a failing rollout is stopped and the disruption budgets never allow more
// than the limit; otherwise in total, too. Karpenter subtracts terminating nodes from what the budgets allow
// (BuildDisruptionBudgetMapping in karpenter pkg/controllers/disruption/helpers.go, 1.14.1).
func (m *maker) countPool(pool string, nodes poolNodes, limit int) int {
	most, known := m.mostAtOnce(pool)
	if !m.policy.Brakes || !known || most > limit {
		return nodes.drained + nodes.replaced
	}
	for _, c := range m.claims()[poolRefOf(pool)] {
		if c.Deleting {
			most--
		}
	}
	return nodes.drained + min(nodes.replaced, max(0, most))
}

// atOnce is how many nodes may be replaced at one time; known is false if that is unknown.
type atOnce struct {
	nodes int
	known bool
}

// mostAtOnce returns how many nodes of a NodePool its disruption budgets let Karpenter replace at one time, now or at
// any time within a year.
func (m *maker) mostAtOnce(pool string) (most int, known bool) {
	if found, done := m.most[pool]; done {
		return found.nodes, found.known
	}
	nodes, budgets := len(m.claims()[poolRefOf(pool)]), m.budgetsInForce(pool)
	found := atOnce{known: len(budgets) > 0}
	for _, object := range budgets {
		n, readable := mostReplaced(object, nodes, m.policy.Now)
		found.nodes, found.known = max(found.nodes, n), found.known && readable
	}
	if m.most == nil {
		m.most = map[string]atOnce{}
	}
	m.most[pool] = found
	return found.nodes, found.known
}

// budgetsInForce returns the NodePool after the Plan, and also the live NodePool if the Plan does not write it or
// changes its EC2NodeClass: the class is applied first, so nodes may be replaced under the old budgets.
func (m *maker) budgetsInForce(pool string) []*unstructured.Unstructured {
	ref := poolRefOf(pool)
	var found []*unstructured.Unstructured
	change, changes := m.changes[ref]
	if changes = changes && change.Action.Writes(); changes {
		found = append(found, change.Wanted())
	}
	byClass := slices.ContainsFunc(m.claims()[ref], func(c *NodeClaim) bool {
		class, ok := m.changes[render.Ref{Kind: render.EC2NodeClass, Name: c.Class}]
		return ok && class.Effect == EffectReplace
	})
	if live := m.live.object(ref); live != nil && (!changes || byClass) {
		found = append(found, unbraked(live.Unstructured))
	}
	return found
}

// mostReplaced returns how many of this many nodes the disruption budgets of a NodePool let Karpenter replace at one
// time, at most within a year; readable is false if they cannot be parsed.
func mostReplaced(object *unstructured.Unstructured, nodes int, now time.Time) (most int, readable bool) {
	pool, err := typed[karpv1.NodePool](object)
	if err != nil {
		return 0, false
	}
	b, err := readBudgets(pool, nodes, karpv1.DisruptionReasonDrifted)
	if err != nil {
		return 0, false
	}
	return b.maxInYear(now), true
}

// inTotal explains why replacements of a group count by their total; empty if they do not.
func (m *maker) inTotal(group []share, limit int) string {
	var wide []string
	for _, s := range group {
		for _, pool := range m.poolsOf(s) {
			if most, known := m.mostAtOnce(pool); s.replaces && (!known || most > limit) {
				wide = append(wide, fmt.Sprintf("NodePool/%s (%d)", pool, most))
			}
		}
	}
	slices.Sort(wide)
	wide = slices.Compact(wide)
	switch {
	case !slices.ContainsFunc(group, func(s share) bool { return s.replaces }):
		return ""
	case !m.policy.Brakes:
		return "; replacements count in total because spec.rollout.onFailure is Report"
	case len(wide) == 0:
		return ""
	}
	return "; replacements count in total because disruption budgets allow more at a time: " + someOf(wide)
}

// poolsOf returns the NodePools whose nodes a share disrupts, sorted.
func (m *maker) poolsOf(s share) []string {
	ofEach := m.poolOfEach()
	var found []string
	if s.more > 0 {
		found = append(found, s.pool())
	}
	for _, uid := range s.claims {
		found = append(found, ofEach[uid])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func poolRefOf(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }

// outdatedBefore returns the NodeClaims of the NodeSync's definitions that earlier commits made drift, that are not
// replaced yet, and that the Plan does not make match again. They count together with those that the Plan makes drift;
// otherwise a change that is split into several commits would bypass the guard. The Plan's own are in the shares of its
// Changes.
func (m *maker) outdatedBefore() map[types.UID]bool {
	var ours []*Object
	for ref, object := range m.live.Objects {
		if m.inSet[ref] && m.owns(object) { // the nodes of a removed pool count with its removal
			ours = append(ours, object)
		}
	}
	match := Match{Live: m.live, Exact: true, CABundle: m.policy.CABundle, Memory: m.memo.matches}
	found, outdated := map[types.UID]bool{}, match.Outdated(ours).Outdated
	for _, o := range outdated {
		if !m.decidesDrift(o) {
			found[o.Claim.UID] = true
		}
	}
	m.addExpected(found, outdated)
	return found
}

// addExpected adds the NodeClaims that, according to AWS, drift by subnets, security groups or reservations of an
// earlier commit, and that Karpenter has not checked yet. Only their number is recorded, so other NodeClaims stand for
// them: first those that no Change of the Plan affects.
func (m *maker) addExpected(found map[types.UID]bool, outdated []Outdated) {
	r := m.live.Rollout
	if !r.Settling(m.policy.Now) {
		return
	}
	known := map[types.UID]bool{}
	for _, o := range outdated {
		known[o.Claim.UID] = true
	}
	left := int(r.Outdated) - len(outdated)
	for i := range m.live.NodeClaims {
		if c := &m.live.NodeClaims[i]; c.Drifted && !m.inSet[poolRefOf(c.Pool)] {
			left-- // of a removed pool, which counts with its removal
		}
	}
	var may []types.UID
	for i := range m.live.NodeClaims {
		c := &m.live.NodeClaims[i]
		if !known[c.UID] && !c.Deleting && !r.Since.Time.Before(c.Created) && m.inSet[poolRefOf(c.Pool)] && !m.reselects(c.Class) {
			may = append(may, c.UID)
		}
	}
	for _, uid := range m.untouchedFirst(may)[:min(max(left, 0), len(may))] {
		found[uid] = true
	}
}

// untouchedFirst sorts NodeClaims: those that no Change of the Plan affects come first.
func (m *maker) untouchedFirst(claims []types.UID) []types.UID {
	touched := map[types.UID]int{}
	for _, change := range m.changes {
		for _, uid := range change.touched {
			touched[uid] = 1
		}
	}
	slices.SortStableFunc(claims, func(a, b types.UID) int { return touched[a] - touched[b] })
	return claims
}

// reselects reports whether the Plan changes what an EC2NodeClass selects, so that the Plan decides which nodes drift.
func (m *maker) reselects(class string) bool {
	return m.writesField(render.Ref{Kind: render.EC2NodeClass, Name: class}, func(path []string) bool { return len(driftsOf(path)) > 0 })
}

// outdatedByClass returns the NodeClaims of a NodePool that drift by its EC2NodeClass, even if Karpenter has not marked
// them yet, and that the Plan does not make match again. While Karpenter may still find drift by subnets, security
// groups or reservations of an earlier commit, which no object shows, it returns all of them.
func (m *maker) outdatedByClass(pool render.Ref, claims []*NodeClaim) map[types.UID]bool {
	found := map[types.UID]bool{}
	if m.live.Rollout.Settling(m.policy.Now) {
		for _, c := range claims {
			found[c.UID] = true
		}
		return found
	}
	// Pools are decided in parallel, so the shared memory is only read.
	match := Match{Live: m.live, Exact: true, CABundle: m.policy.CABundle, Memory: &MatchMemory{proven: m.memo.matches.proven}}
	for _, o := range match.Outdated([]*Object{m.live.object(pool)}).Outdated {
		if o.Reason != DriftOfPool && o.Reason != driftOfRequirements && !m.decidesDrift(o) {
			found[o.Claim.UID] = true
		}
	}
	return found
}

// decidesDrift reports whether a Change of the Plan decides whether a NodeClaim still drifts for its reason: it does if
// the Change affects it.
func (m *maker) decidesDrift(o Outdated) bool {
	pool, class := poolRefOf(o.Claim.Pool), render.Ref{Kind: render.EC2NodeClass, Name: o.Claim.Class}
	switch o.Reason {
	case DriftOfPool:
		return m.writesField(pool, func(path []string) bool { return inTemplate(path) && !inRequirements(path) })
	case driftOfRequirements:
		return m.writesField(pool, inRequirements)
	case driftOfClass:
		return m.writesField(class, func(path []string) bool { return len(driftsOf(path)) == 0 })
	}
	return m.writesField(class, func(path []string) bool { return slices.Contains(driftsOf(path), o.Reason) })
}

// writesField reports whether the Plan writes a matching field of an object's spec.
func (m *maker) writesField(ref render.Ref, of func(path []string) bool) bool {
	change, ok := m.changes[ref]
	return ok && change.Action.Writes() && slices.ContainsFunc(change.differences, func(d difference) bool {
		return len(d.path) > 1 && d.path[0] == "spec" && of(d.path)
	})
}

func inTemplate(path []string) bool { return path[1] == "template" }

func inRequirements(path []string) bool {
	return inTemplate(path) && len(path) > 3 && path[2] == "spec" && path[3] == "requirements"
}

// driftsOf returns Karpenter's drift reasons for a field of an EC2NodeClass that is not in its hash.
func driftsOf(path []string) []string {
	var found []string
	for _, field := range resolvedFields() {
		if field.name == path[1] {
			found = append(found, field.reason)
		}
	}
	return found
}

// ReasonMaxDisruptedNodesPerPool is the reason to hold what would disrupt more nodes of one NodePool than the guard
// allows.
const ReasonMaxDisruptedNodesPerPool = "MaxDisruptedNodesPerPool"

// beyond is a NodePool whose limit of disrupted nodes would be exceeded.
type beyond struct {
	pool string
	// nodes would be disrupted; already of them terminate in any case. limit is what is allowed of the base.
	nodes, already, limit int
	of                    percentOf
}

// checkNodesPerPool holds each object of a group that would disrupt nodes of a NodePool beyond
// guard.maxDisruptedNodesPerPool, together with those that are terminating. It returns the others, which proceed.
func (m *maker) checkNodesPerPool(group []share, already disruption) []share {
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

// poolsBeyond returns the NodePools whose limit a group would exceed, by name.
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

// tooManyOf returns how to release a held object: in full for its first pool, then briefly for the others.
func (m *maker) tooManyOf(s share, over []share, found []beyond, pools map[types.UID]string, recent bool) string {
	concerns := func(b beyond) func(share) bool { return func(s share) bool { return s.disrupts(b.pool, pools) } }
	mine := slices.DeleteFunc(slices.Clone(found), func(b beyond) bool { return !concerns(b)(s) })
	first := mine[0]
	most := slices.MaxFunc(found, func(a, b beyond) int { return cmp.Compare(a.nodes, b.nodes) }).nodes
	mineOver := slices.DeleteFunc(slices.Clone(over), func(s share) bool { return !concerns(first)(s) })
	message := fmt.Sprintf("%s of NodePool/%s would be disrupted, but guard.maxDisruptedNodesPerPool allows %d: set it to %d (it is %s%s), or change less in one commit: %s",
		english.Plural(first.nodes, "node", ""), first.pool, first.limit, most, shareOf(m.policy.Guard.MaxDisruptedNodesPerPool, first.of),
		disruptedAlready(first.already, recent)+m.inTotal(mineOver, first.limit), m.namesOf(mineOver, first.limit))
	if len(mine) == 1 {
		return message
	}
	var others []string
	for _, b := range mine[1:] {
		others = append(others, fmt.Sprintf("%d of NodePool/%s (limit %d)", b.nodes, b.pool, b.limit))
	}
	return message + "; also " + someOf(others)
}

// poolOfEach returns the NodePool of each NodeClaim.
func (m *maker) poolOfEach() map[types.UID]string {
	pools := make(map[types.UID]string, len(m.live.NodeClaims))
	for i := range m.live.NodeClaims {
		pools[m.live.NodeClaims[i].UID] = m.live.NodeClaims[i].Pool
	}
	return pools
}

// disrupts reports whether the share includes nodes of a NodePool.
func (s share) disrupts(pool string, pools map[types.UID]string) bool {
	of := func(uid types.UID) bool { return pools[uid] == pool }
	return s.more > 0 && s.ref == poolRefOf(pool) || slices.ContainsFunc(s.claims, of) || slices.ContainsFunc(s.terminated, of)
}
