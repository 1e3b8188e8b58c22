package preflight

import (
	"fmt"
	"time"
)

// PoolBudgets are what the disruption budgets of a NodePool allow.
type PoolBudgets struct {
	Pool  string
	Nodes int
	// Unreadable is why Karpenter cannot evaluate them, and disrupts nothing; empty if it can.
	Unreadable string
	// Most is how many nodes they allow at most to be disrupted at a time, within a year, by reason: Drifted, Underutilized, Empty.
	Most map[string]int
	// Expires is spec.template.spec.expireAfter; 0 for Never.
	Expires time.Duration
}

// budgets checks disruption budgets and the expiry of nodes.
func budgets() Check {
	return Check{
		ID: "budgets",
		Why: "budgets that never allow a disruption keep old AMIs running for ever; a short expireAfter replaces nodes all the time, " +
			"regardless of budgets",
		needs: []source{ofPools, ofBudgets},
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
	for _, p := range o.PoolBudgets {
		found = append(found, p.judge()...)
	}
	return looked, found
}

func (p PoolBudgets) judge() []Finding {
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
		if most, known := p.Most[reason.name]; known && most == 0 {
			add(reason.status, open, "its budgets allow no disruption for %s at any time: %s", reason.name, reason.means)
		}
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
