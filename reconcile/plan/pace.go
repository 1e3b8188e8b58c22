package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// PoolPace is how fast Karpenter may replace the nodes of one NodePool that a Plan outdates, or how fast
// they go where the pool leaves.
type PoolPace struct {
	Pool string
	// Nodes is how many are outdated or go, and Of how many there are. UpTo says that AWS decides which of
	// the Nodes are. Leaves says that the pool leaves.
	Nodes, Of    int
	UpTo, Leaves bool
	// Launch is how long the fastest launch of its nodes has taken; 0 where none is known.
	Launch time.Duration
	// Allowed is by the disruption budgets as they are after the Plan, or by spec.removal.
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

// AtLeast is about the shortest time in which that many rounds can follow each other, whole minutes
// where it is longer than one; 0 where it is not known.
func (p PoolPace) AtLeast() time.Duration {
	if p.UpTo {
		return 0
	}
	shortest := time.Duration(p.Rounds()) * p.Launch
	if shortest > time.Minute {
		return shortest.Truncate(time.Minute)
	}
	return shortest
}

// LowerBound says how many rounds there are, and how long they take.
func (p PoolPace) LowerBound() string {
	rounds := english.Plural(p.Rounds(), "round", "")
	switch {
	case p.UpTo:
		return rounds + " for all of them"
	case p.AtLeast() == 0:
		return rounds + " at least"
	}
	return fmt.Sprintf("%s, ~%s at least", rounds, Short(p.AtLeast()))
}

// Words say it to people.
func (p PoolPace) Words(now time.Time) string {
	if p.Leaves {
		return fmt.Sprintf("NodePool/%s: %s to end, up to %d at a time: %s (a round has a drain, and a launch where pods find no room)",
			p.Pool, english.Plural(p.Nodes, "node", ""), p.Allowed.Now, p.LowerBound())
	}
	words := fmt.Sprintf("NodePool/%s: %d of %d nodes to replace, ", p.Pool, p.Nodes, p.Of)
	if p.UpTo {
		words = fmt.Sprintf("NodePool/%s: up to %d of %d nodes to replace, ", p.Pool, p.Nodes, p.Of)
	}
	switch {
	case p.Allowed.Unreadable:
		return words + "and a disruption budget cannot be read: Karpenter disrupts none"
	case p.Rounds() == 0:
		return words + "and its disruption budgets allow none"
	case p.Allowed.Now == 0:
		words += fmt.Sprintf("none until %s, then ", ClockTime(p.Allowed.At, now))
	}
	words += fmt.Sprintf("up to %d at a time: %s", cmp.Or(p.Allowed.Now, p.Allowed.Next), p.LowerBound())
	if p.AtLeast() > 0 {
		return words + fmt.Sprintf(" (a round has a launch, of which the fastest took %s, and a drain)", Short(p.Launch))
	}
	return words + " (a round has a launch and a drain)"
}

// Paces are those of the NodePools whose nodes the Changes of a Plan outdate, by name. Where AWS
// decides which nodes these are, all count.
func Paces(changes []Change, live Live, now time.Time) []PoolPace {
	paces, pools := pacesOf(live)
	outdated, budgets := map[types.UID]bool{}, map[string]*Object{}
	for i := range changes {
		c := &changes[i]
		if c.Ref.Kind == render.NodePool && c.Object.Defaulted != nil {
			budgets[c.Ref.Name] = NewObject(c.Wanted())
		}
		if c.Effect != EffectReplace {
			continue
		}
		for _, uid := range c.touched {
			pace := pools[uid]
			if pace == nil {
				continue // it ended since the Change was planned
			}
			pace.UpTo = pace.UpTo || c.UpTo
			if !outdated[uid] {
				outdated[uid] = true
				pace.Nodes++
			}
		}
	}
	var found []PoolPace
	for _, pace := range paces {
		object := cmp.Or(budgets[pace.Pool], live.object(render.Ref{Kind: render.NodePool, Name: pace.Pool}))
		if pace.Nodes > 0 && object != nil {
			pace.Allowed, pace.Windows = AllowedDisruptions(object, pace.Of, now), Windows(object, pace.Of, now)
			found = append(found, *pace)
		}
	}
	slices.SortFunc(found, func(a, b PoolPace) int { return cmp.Compare(a.Pool, b.Pool) })
	return found
}

// RemovalPaces are those of the NodePools that leave and whose nodes end, held ones included, by name. Each is a
// lower bound: removals that are open together share what may be leaving at a time.
func RemovalPaces(removals []Candidate, policy v1alpha1.RemovalPolicy) []PoolPace {
	var found []PoolPace
	for i := range removals {
		c := &removals[i]
		if at := policy.AtATime(c.Nodes); c.Ref.Kind == render.NodePool && c.Nodes > 0 && at > 0 {
			found = append(found, PoolPace{Pool: c.Ref.Name, Nodes: c.Nodes, Of: c.Nodes, Leaves: true, Allowed: Allowed{Now: at}})
		}
	}
	slices.SortFunc(found, func(a, b PoolPace) int { return cmp.Compare(a.Pool, b.Pool) })
	return found
}

// pacesOf are the pools that have NodeClaims, none of which is outdated yet, and the pool of each NodeClaim.
func pacesOf(live Live) (paces map[string]*PoolPace, pools map[types.UID]*PoolPace) {
	paces, pools = map[string]*PoolPace{}, map[types.UID]*PoolPace{}
	for i := range live.NodeClaims {
		c := &live.NodeClaims[i]
		if paces[c.Pool] == nil {
			paces[c.Pool] = &PoolPace{Pool: c.Pool}
		}
		pace := paces[c.Pool]
		pools[c.UID] = pace
		pace.Of++
		if c.Launch > 0 && (pace.Launch == 0 || c.Launch < pace.Launch) {
			pace.Launch = c.Launch
		}
	}
	return paces, pools
}
