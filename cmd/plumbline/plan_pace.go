package main

import (
	"cmp"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// paceReport is how fast Karpenter may replace the nodes of a NodePool, or how fast they end.
type paceReport struct {
	Pool string `json:"pool"`
	// Nodes is how many are outdated or end, Of how many there are, and AtATime how many of them the
	// disruption budgets, or spec.removal, allow to go at a time; 0 where none may. Leaves says that the
	// pool leaves.
	Nodes   int  `json:"nodes"`
	Of      int  `json:"of"`
	AtATime int  `json:"atATime"`
	Leaves  bool `json:"leaves,omitempty"`
	// Rounds is the least number of rounds, and From when the first can begin, where that is later.
	Rounds int `json:"rounds"`
	// UpTo says that Nodes and Rounds are at most those, as AWS decides which nodes are outdated. AtLeast
	// is about how long the rounds take at least, by the fastest launch of the pool's nodes; 0 where
	// it is not known.
	UpTo    bool       `json:"upTo,omitempty"`
	AtLeast int        `json:"atLeastSeconds,omitempty"`
	From    *time.Time `json:"from,omitempty"`
	// Windows are when the budgets allow a replacement in the next 30 days, where that is not all the
	// time.
	Windows []plan.Window `json:"windows,omitempty"`
	lines   []string
}

// paces are those of a Plan.
func (p *planned) paces() []paceReport {
	var found []paceReport
	now := time.Now()
	for _, pace := range append(plan.Paces(p.Changes, p.live, now), plan.RemovalPaces(p.Removals, p.removal)...) {
		r := paceReport{Pool: pace.Pool, Leaves: pace.Leaves, Nodes: pace.Nodes, Of: pace.Of, AtATime: cmp.Or(pace.Allowed.Now, pace.Allowed.Next), Rounds: pace.Rounds(), UpTo: pace.UpTo, AtLeast: int(pace.AtLeast().Seconds()), Windows: pace.Windows, lines: []string{pace.Words(now)}}
		if !pace.Allowed.At.IsZero() {
			r.From = &pace.Allowed.At
		}
		if words := pace.WindowWords(now); words != "" {
			r.lines = append(r.lines, words)
		}
		found = append(found, r)
	}
	return found
}
