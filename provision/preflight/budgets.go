package preflight

import (
	"fmt"
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// PoolBudgets are what the disruption budgets of a NodePool allow.
type PoolBudgets struct {
	Pool  string
	Nodes int
	// Unreadable is why Karpenter cannot evaluate them, and disrupts nothing; empty if it can.
	Unreadable string
	// Allowed is what they allow, by reason: Drifted, Underutilized, Empty.
	Allowed map[string]Allowed
	// Expires is spec.template.spec.expireAfter; 0 for Never.
	Expires time.Duration
}

// Allowed is what disruption budgets allow for a reason.
type Allowed struct {
	// Most is how many nodes they allow at most to be disrupted at a time, within a year.
	Most int
	// Opens is when they next allow a disruption, if they allow none now, and All when they first allow all nodes to be
	// disrupted at a time. Both are zero if that is not within a month.
	Opens, All time.Time
}

// budgets checks disruption budgets and the expiry of nodes.
func budgets() Check {
	return Check{
		ID: "budgets",
		Why: "budgets that never allow a disruption keep old AMIs running for ever; a short expireAfter replaces nodes all the time, " +
			"regardless of budgets, and nodes that were launched together expire together",
		needs: []source{ofPools, ofClaims, ofBudgets},
		look:  lookAtBudgets,
	}
}

const (
	// rapid is an expireAfter below which nodes hardly do any work, and frequent one that replaces each node every day.
	rapid, frequent = time.Hour, 24 * time.Hour
)

func lookAtBudgets(o Observed) (string, []Finding) {
	const looked = "disruption budgets by reason for the next year, and expireAfter of NodePools"
	if o.Pools.Err != nil {
		return looked, unread(o.Pools.Err)
	}
	if len(o.PoolBudgets) == 0 {
		return "no NodePool", nil
	}
	var found []Finding
	if o.Claims.Err != nil {
		found = unread(o.Claims.Err)
	}
	for _, p := range o.PoolBudgets {
		found = append(found, p.judge(o.Now)...)
		found = append(found, p.expiring(o)...)
	}
	return looked, found
}

// shutFor is how long budgets may allow no disruption: longer than between two weekly windows. At least few nodes that expire
// soon, and together, are reported if they are half of a pool's.
const (
	shutFor  = 8 * 24 * time.Hour
	few      = 3
	together = time.Hour
	soon     = 24 * time.Hour
)

// hour formats a time in a message.
func hour(t time.Time) string { return t.UTC().Format("Mon 2 Jan 15:04 UTC") }

// allowance returns what the budgets allow too late, or too much of, for a reason.
func (p PoolBudgets) allowance(reason string, now time.Time, add func(status Status, fix, format string, args ...any)) {
	allowed, known := p.Allowed[reason]
	switch {
	case !known || allowed.Most == 0:
	case allowed.Opens.Sub(now) > shutFor:
		add(Warning, "add a window to spec.disruption.budgets, or shorten the duration of a budget of 0 nodes",
			"its budgets allow no disruption for %s before %s", reason, hour(allowed.Opens))
	case p.Nodes > 1 && !allowed.All.IsZero() && reason != "Empty":
		when := "now"
		if allowed.All.After(now) {
			when = "from " + hour(allowed.All) + " on"
		}
		add(Warning, "set spec.disruption.budgets to a share of the nodes, such as 10%",
			"its budgets allow all %d nodes to be disrupted at a time for %s, %s", p.Nodes, reason, when)
	}
}

// expiring returns that most nodes of the pool expire within an hour of the next day: budgets do not spread that.
func (p PoolBudgets) expiring(o Observed) []Finding {
	var at []time.Time
	total := 0
	for i := range o.Claims.Of {
		claim := &o.Claims.Of[i]
		if claim.Labels[karpv1.NodePoolLabelKey] != p.Pool || claim.DeletionTimestamp != nil {
			continue
		}
		total++
		if after := claim.Spec.ExpireAfter.Duration; after != nil {
			if t := claim.CreationTimestamp.Add(*after); t.Sub(o.Now) < soon {
				at = append(at, t)
			}
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	for i := range at {
		last := i
		for last+1 < len(at) && at[last+1].Sub(at[i]) < together {
			last++
		}
		if count := last - i + 1; count >= few && 2*count >= total {
			return []Finding{{
				Status: Warning,
				Fix:    "delete some of the NodeClaims before that, one at a time: kubectl delete nodeclaim NAME",
				Message: fmt.Sprintf("NodePool/%s: %d of %d nodes expire between %s and %s, regardless of budgets",
					p.Pool, count, total, hour(at[i]), hour(at[last])),
			}}
		}
	}
	return nil
}

func (p PoolBudgets) judge(now time.Time) []Finding {
	var found []Finding
	add := func(status Status, fix, format string, args ...any) {
		found = append(found, Finding{Status: status, Message: "NodePool/" + p.Pool + ": " + fmt.Sprintf(format, args...), Fix: fix})
	}
	const open = "change spec.disruption.budgets: give a budget of 0 nodes a schedule and a duration, outside of which nodes may be disrupted"
	if p.Unreadable != "" {
		add(Problem, "correct spec.disruption.budgets", "a budget cannot be evaluated, so Karpenter disrupts no node: %s", p.Unreadable)
	}
	for _, reason := range []struct {
		name   string
		status Status
		means  string
	}{
		{"Drifted", Problem, "nodes with an old AMI or an old definition are never replaced"},
		{"Underutilized", Warning, "nodes that are hardly used are never consolidated"},
		{"Empty", Warning, "empty nodes are never terminated"},
	} {
		if allowed, known := p.Allowed[reason.name]; known && allowed.Most == 0 {
			add(reason.status, open, "its budgets allow no disruption for %s at any time: %s", reason.name, reason.means)
		}
		p.allowance(reason.name, now, add)
	}
	const longer = "set spec.template.spec.expireAfter to a week or longer, or Never"
	switch {
	case p.Expires == 0 || p.Expires >= frequent:
	case p.Expires < rapid:
		add(Problem, longer, "expireAfter %s: Karpenter terminates each node after that time, regardless of budgets", p.Expires)
	default:
		add(Warning, longer, "expireAfter %s: Karpenter terminates each node at least once a day, regardless of budgets", p.Expires)
	}
	return found
}
