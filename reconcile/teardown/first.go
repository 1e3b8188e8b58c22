package teardown

import (
	"cmp"
	"context"
	"slices"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// askWhatEndsFirst asks, where it matters, whether Karpenter ends nodes in reserved capacity before their
// replacements are there.
func (d *drive) askWhatEndsFirst(ctx context.Context) {
	reserved := func(c Claim) bool { return c.Reserved }
	if d.EndsFirst == nil || !d.Pace.Replaces || !slices.ContainsFunc(d.open(), func(it *item) bool { return slices.ContainsFunc(it.seen.NodeClaims, reserved) }) {
		return
	}
	if d.endsFirst = d.EndsFirst(ctx); !d.endsFirst {
		return
	}
	for _, it := range d.open() {
		it.seen.EndsFirst = true
	}
}

// first names the nodes of a pool that Karpenter ends before their replacements are there; empty where it
// ends none so.
func (o Observation) first() string {
	if !o.EndsFirst || !o.replaces() {
		return ""
	}
	var nodes []string
	for _, c := range o.untouched() {
		if c.Reserved {
			nodes = append(nodes, cmp.Or(c.Node, c.Name))
		}
	}
	return plan.EndFirst(nodes)
}
