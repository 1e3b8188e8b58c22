package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/render"
)

// PoolPace is how fast Karpenter may replace the nodes of one NodePool that a Plan outdates.
type PoolPace struct {
	Pool string
	// Nodes is how many are outdated, and Of how many there are.
	Nodes, Of int
	// Allowed is by the disruption budgets as they are after the Plan.
	Allowed Allowed
	// Windows are when these allow a replacement in the next 30 days; none where that is always, or
	// never.
	Windows []Window
}

// Rounds is the least number of rounds, each as long as a launch and a drain, in which the nodes
// can be replaced; 0 where the budgets allow none.
func (p PoolPace) Rounds() int {
	at := cmp.Or(p.Allowed.Now, p.Allowed.Next)
	if at == 0 {
		return 0
	}
	return (p.Nodes + at - 1) / at
}

// Words say it to people.
func (p PoolPace) Words(now time.Time) string {
	words := fmt.Sprintf("NodePool/%s: %d of %d nodes to replace, ", p.Pool, p.Nodes, p.Of)
	switch {
	case p.Allowed.Unreadable:
		return words + "and a disruption budget cannot be read: Karpenter disrupts none"
	case p.Rounds() == 0:
		return words + "and its disruption budgets allow none"
	case p.Allowed.Now == 0:
		words += fmt.Sprintf("none until %s, then ", ClockTime(p.Allowed.At, now))
	}
	at, rounds := cmp.Or(p.Allowed.Now, p.Allowed.Next), p.Rounds()
	if rounds == 1 {
		return words + fmt.Sprintf("up to %d at a time: 1 round at least", at)
	}
	return words + fmt.Sprintf("up to %d at a time: %d rounds at least, each as long as a launch and a drain", at, rounds)
}

// Paces are those of the NodePools whose nodes the Changes of a Plan outdate, by name. Where AWS
// decides which nodes these are, all count.
func Paces(changes []Change, live Live, now time.Time) []PoolPace {
	pools := map[types.UID]string{}
	total := map[string]int{}
	for i := range live.NodeClaims {
		c := &live.NodeClaims[i]
		pools[c.UID] = c.Pool
		total[c.Pool]++
	}
	outdated, budgets := map[string]map[types.UID]bool{}, map[string]*Object{}
	for i := range changes {
		c := &changes[i]
		if c.Ref.Kind == render.NodePool && c.Object.Defaulted != nil {
			budgets[c.Ref.Name] = NewObject(c.Wanted())
		}
		if c.Effect != EffectReplace {
			continue
		}
		for _, uid := range c.touched {
			pool := pools[uid]
			if outdated[pool] == nil {
				outdated[pool] = map[types.UID]bool{}
			}
			outdated[pool][uid] = true
		}
	}
	var found []PoolPace
	for pool, claims := range outdated {
		object := cmp.Or(budgets[pool], live.object(render.Ref{Kind: render.NodePool, Name: pool}))
		if object != nil {
			found = append(found, PoolPace{Pool: pool, Nodes: len(claims), Of: total[pool], Allowed: AllowedDisruptions(object, total[pool], now), Windows: Windows(object, total[pool], now)})
		}
	}
	slices.SortFunc(found, func(a, b PoolPace) int { return cmp.Compare(a.Pool, b.Pool) })
	return found
}
