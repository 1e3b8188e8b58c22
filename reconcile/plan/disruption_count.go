package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// poolNodes are the disrupted nodes of one NodePool.
type poolNodes struct{ drained, replaced int }

// byPool counts the nodes by their NodePool. One that is drained does not count as replaced as well.
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
		count(pool, 0, max(0, more-found[pool].replaced)) // they are among those that are outdated already
	}
	return found
}

// countAll is how many nodes count for a limit.
func (m *maker) countAll(d disruption, limit int) int {
	n := 0
	for pool, nodes := range d.byPool(m.poolOfEach()) {
		n += m.countPool(pool, nodes, limit)
	}
	return n
}

// countPool is how many nodes of a NodePool count for a limit: those that are drained by their total, and those that
// are replaced by what may be replaced at one time, if a rollout that fails is stopped and the disruption budgets
// never allow more than the limit; otherwise by their total, too. Karpenter subtracts the nodes that are terminating from what the
// budgets allow (BuildDisruptionBudgetMapping in karpenter pkg/controllers/disruption/helpers.go, 1.14.1).
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

// atOnce is how many nodes may be replaced at one time; known reports whether that can be told.
type atOnce struct {
	nodes int
	known bool
}

// mostAtOnce is how many nodes of a NodePool its disruption budgets let Karpenter replace at one time, now or at
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

// budgetsInForce are a NodePool as it is after the Plan, and as it lives if the Plan does not write it or changes its
// EC2NodeClass, too: that is applied first, so that nodes may be replaced by the budgets of before.
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

// mostReplaced is how many of so many nodes the disruption budgets of a NodePool let Karpenter replace at one time, the
// most within a year; readable reports whether they can be read.
func mostReplaced(object *unstructured.Unstructured, nodes int, now time.Time) (most int, readable bool) {
	pool, err := typed[karpv1.NodePool](object)
	if err != nil {
		return 0, false
	}
	b, err := readBudgets(pool, nodes, karpv1.DisruptionReasonDrifted)
	if err != nil {
		return 0, false
	}
	return b.most(now), true
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
		return "; replacements count in total, as spec.rollout.onFailure is Report"
	case len(wide) == 0:
		return ""
	}
	return "; replacements count in total where disruption budgets allow more at one time: " + someOf(wide)
}

// poolsOf are the NodePools whose nodes a share disrupts, sorted.
func (m *maker) poolsOf(s share) []string {
	ofEach := m.poolOfEach()
	var found []string
	if s.more > 0 {
		found = append(found, s.ref.Name)
	}
	for _, uid := range s.claims {
		found = append(found, ofEach[uid])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func poolRefOf(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }
