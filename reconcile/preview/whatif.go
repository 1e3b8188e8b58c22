package preview

import (
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/capture"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/whatif"
)

// WhatIf simulates what becomes of pods by a Plan, with what the guard holds of it: that is what a
// person is about to release. live is what the Plan was made of.
func WhatIf(ctx context.Context, made *plan.Plan, live plan.Live, c *capture.Capture, offers whatif.Offers) (*whatif.Outcome, error) {
	commit, notes := whatif.CommitOf(made, live, c.Definitions)
	out, err := whatif.Simulate(ctx, c, commit, offers)
	if err != nil {
		return nil, err
	}
	out.Notes = append(out.Notes, notes...)
	return out, nil
}
