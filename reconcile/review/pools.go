package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// pool is what becomes of the nodes of one NodePool.
type pool struct {
	Name, Nodes, Effect, Reason, AtLeast string

	pace    plan.PoolPace
	reasons []string
	count   int
	// to are the pools that its nodes move to; empty where they end.
	to []string
}

// poolsOf are the pools whose nodes a Plan touches, held ones included, by name.
func poolsOf(in Input) []pool {
	found := append(append(replaced(in, ""), replaced(in, plan.Hold)...), replaced(in, plan.Wait)...)
	for i := range in.Plan.Changes {
		if c := &in.Plan.Changes[i]; c.Effect == plan.EffectDrain {
			found = append(found, pool{Name: c.Ref.Name, Nodes: fmt.Sprint(c.Nodes), Effect: stays(c.Action, plan.EffectDrain), Reason: c.Reason, count: c.Nodes})
		}
		if c := &in.Plan.Changes[i]; c.Consolidates() > 0 && c.Err == nil {
			found = append(found, consolidated(c, in))
		}
	}
	ends := map[string]plan.PoolPace{}
	for _, pace := range plan.RemovalPaces(in.Plan.Removals, in.Removal) {
		ends[pace.Pool] = pace
	}
	for i := range in.Plan.Removals {
		c := &in.Plan.Removals[i]
		if c.Ref.Kind != render.NodePool || c.Nodes == 0 {
			continue
		}
		action := plan.Action("")
		switch {
		case c.Held:
			action = plan.Hold
		case c.Queued, in.Plan.Frozen.Message != "":
			action = plan.Wait
		}
		p := pool{Name: c.Ref.Name, Nodes: fmt.Sprintf("%d of %d", c.Nodes, c.Nodes), Effect: stays(action, plan.EffectDrain), Reason: cmp.Or(c.Reason, left(c)), count: c.Nodes, to: c.MovesTo}
		if pace, is := ends[p.Name]; is {
			p.AtLeast, p.pace = pace.LowerBound(), pace
		}
		found = append(found, p)
	}
	slices.SortStableFunc(found, func(a, b pool) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// consolidated is the row of a pool whose nodes Karpenter may consolidate after a Change, and could not before.
func consolidated(c *plan.Change, in Input) pool {
	of := 0
	for i := range in.Live.NodeClaims {
		if in.Live.NodeClaims[i].Pool == c.Ref.Name {
			of++
		}
	}
	return pool{
		Name: c.Ref.Name, Nodes: fmt.Sprintf("up to %d of %d", c.Consolidates(), of), Effect: stays(c.Action, plan.EffectConsolidate),
		Reason: "empty or underused", count: c.Consolidates(),
	}
}

// left says why an entry leaves.
func left(c *plan.Candidate) string {
	if len(c.MovesTo) > 0 {
		return "it moves to " + strings.Join(c.MovesTo, ", ")
	}
	return "it left Git"
}

// stays is an effect, with whether it is held or waits.
func stays(action plan.Action, effect plan.Effect) string {
	switch action { //nolint:exhaustive // all others go ahead
	case plan.Hold:
		return "held: " + string(effect)
	case plan.Wait:
		return "waits: " + string(effect)
	}
	return string(effect)
}

// replaced are the pools whose nodes Karpenter replaces, by Changes that are held, that wait, or that go
// ahead, which have none of these actions.
func replaced(in Input, action plan.Action) []pool {
	changes := slices.DeleteFunc(slices.Clone(in.Plan.Changes), func(c plan.Change) bool {
		of := plan.Action("")
		if c.Action == plan.Hold || c.Action == plan.Wait {
			of = c.Action
		}
		return of != action || c.Err != nil
	})
	of := map[types.UID]string{}
	for i := range in.Live.NodeClaims {
		of[in.Live.NodeClaims[i].UID] = in.Live.NodeClaims[i].Pool
	}
	reasons := map[string][]string{}
	for i := range changes {
		c := &changes[i]
		if c.Effect != plan.EffectReplace {
			continue
		}
		for _, uid := range c.NodeClaims() {
			name := of[uid]
			reasons[name] = append(reasons[name], c.DriftReasons...)
		}
	}
	var found []pool
	for _, pace := range plan.Paces(changes, in.Live, in.Now) {
		p := pool{
			Name: pace.Pool, Nodes: fmt.Sprintf("%d of %d", pace.Nodes, pace.Of), Effect: stays(action, plan.EffectReplace),
			Reason: joined(reasons[pace.Pool]), reasons: reasons[pace.Pool], AtLeast: atLeast(pace, in), pace: pace, count: pace.Nodes,
		}
		if pace.UpTo {
			p.Nodes = "up to " + p.Nodes
		}
		found = append(found, p)
	}
	return found
}

// atLeast is the lower bound of the time.
func atLeast(pace plan.PoolPace, in Input) string {
	switch {
	case pace.Allowed.Unreadable:
		return "a disruption budget cannot be read"
	case pace.Rounds() == 0:
		return "its disruption budgets allow none"
	case pace.Allowed.Now == 0:
		return fmt.Sprintf("from %s on, %s", plan.ClockTime(pace.Allowed.At, in.Now), pace.LowerBound())
	}
	return pace.LowerBound()
}

// joined are words in order, each once.
func joined(words []string) string {
	sorted := slices.Clone(words)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), ", ")
}
