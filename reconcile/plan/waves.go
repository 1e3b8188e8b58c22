package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// ReasonWaves is the reason of a Change that waits until Karpenter can replace no node of its NodePools: then the first
// wave begins.
const ReasonWaves = "Waves"

// ReasonBudgetsFull is the reason to hold a Change that needs waves while a NodePool has no room for their disruption
// budgets. It cannot be approved.
const ReasonBudgetsFull = "BudgetsFull"

// leaseBudgets is how many disruption budgets a wave adds to those of a NodePool.
const leaseBudgets = 2

// MinWaved is how many nodes of a NodePool a Change must replace for waves: fewer are as many as the first two waves.
const MinWaved = 4

// MaxWave is the number of nodes of the largest wave that is limited. All nodes that remain after it are the last wave:
// the status has the name of each node that is being replaced in a limited wave.
const MaxWave = 100

// waitForWaves makes the Changes wait whose nodes are replaced in waves, until plumbline has stopped replacements in
// their NodePools. Otherwise Karpenter would replace as many nodes as the budgets in Git allow before the first wave is
// recorded. A revert does not wait.
func (m *maker) waitForWaves(p *Plan) {
	if !m.policy.Waves || m.policy.Deleting {
		return
	}
	pools := m.poolOfEach()
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Effect != EffectReplace || len(c.Reverts) > 0 || !proceedsAndCounts(c) || c.Action == Wait {
			continue
		}
		reverted, _ := m.reverts(c, reverted{})
		c.RevertsWaves = reverted
		waved := slices.DeleteFunc(c.wavedPools(pools), func(pool string) bool { return slices.Contains(reverted, pool) || !m.brakes(pool) })
		if full := slices.IndexFunc(waved, func(pool string) bool { return m.budgetsInGit(pool) > MaxBudgets-leaseBudgets }); full >= 0 {
			c.hold(ReasonBudgetsFull, fmt.Sprintf("%s replaces nodes in waves, but NodePool/%s has %d disruption budgets: Karpenter allows %d, and a wave needs %d of them; remove a budget in Git, or turn waves off with spec.rollout.waves.disabled",
				c.Ref, waved[full], m.budgetsInGit(waved[full]), MaxBudgets, leaseBudgets))
			continue
		}
		first := slices.DeleteFunc(waved, m.isBraked)
		if len(first) == 0 {
			continue
		}
		c.BrakesFirst = first
		c.Action, c.Reason, c.WaitsFor = Wait, ReasonWaves, poolNames(first)
		c.Message = fmt.Sprintf("%s replaces nodes in waves: it is written once plumbline has stopped replacements in %s", c.Ref, poolNames(first))
	}
}

// budgetsInGit returns how many disruption budgets a NodePool has in Git; live, if it is not in Git.
func (m *maker) budgetsInGit(pool string) int {
	if at := slices.IndexFunc(m.objects, func(o render.Object) bool { return o.Ref == poolRefOf(pool) }); at >= 0 {
		return len(BudgetsOf(m.objects[at].Defaulted))
	}
	return len(BudgetsOf(unbraked(m.live.object(poolRefOf(pool)).content())))
}

// brakes reports whether plumbline sets the disruption budgets of a NodePool: it is ours, and is not being removed.
func (m *maker) brakes(pool string) bool {
	live := m.live.object(poolRefOf(pool))
	return live != nil && m.owns(live) && live.GetDeletionTimestamp() == nil && !m.isBeingRemoved(live.GetUID())
}

// wavedPools returns the NodePools in which a Change replaces enough nodes for waves, sorted.
func (c *Change) wavedPools(pools map[types.UID]string) []string {
	nodes := map[string]int{}
	for _, uid := range c.touched {
		nodes[pools[uid]]++
	}
	maps.DeleteFunc(nodes, func(pool string, n int) bool { return pool == "" || n < MinWaved })
	return slices.Sorted(maps.Keys(nodes))
}

// WaveSizes returns how many nodes each wave has, from one of this number on, until a number of nodes are replaced. A
// number below 2 starts with the first one.
func WaveSizes(policy *v1alpha1.RolloutWaves, from int32, nodes int) []int {
	size, factor := int(max(policy.Start, 1)), int(max(policy.Factor, 1))
	for range from - 1 {
		size = min(size*factor, MaxWave+1)
	}
	var sizes []int
	for nodes > 0 && len(sizes) < maxWaves {
		if size > MaxWave {
			size = nodes
		}
		size = min(size, nodes)
		sizes, nodes, size = append(sizes, size), nodes-size, size*factor
	}
	if len(sizes) == 0 {
		return []int{0} // the nodes are not known yet
	}
	return sizes
}

// maxWaves limits how far ahead the waves are counted.
const maxWaves = 1000

// WavesTake returns the minimum duration that waves add to a rollout: the pauses between them, and how long the workloads
// are judged after the last one.
func WavesTake(policy *v1alpha1.RolloutPolicy, waves int) time.Duration {
	return time.Duration(waves-1)*policy.GetWaves().GetPause() + policy.GetWatchFor()
}
